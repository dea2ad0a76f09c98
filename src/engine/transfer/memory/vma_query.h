/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes one mapping of this process. Uses PROCMAP_QUERY (Linux 6.11) instead of reading all of
 * /proc/self/maps.
 */
#ifndef GF_ENGINE_TRANSFER_MEMORY_VMA_QUERY_H
#define GF_ENGINE_TRANSFER_MEMORY_VMA_QUERY_H

#include "base/base.h"

/* Opens the file that the queries use. Called within cuInit; os/files.h explains why. */
void gf_vma_query_start(void);

struct gf_vma {
    uintptr_t start, end;
    size_t page;
    bool readable, writable, shared;
    bool has_file;
    /*
     * Device and inode of the mapping's file; 0 without a file. The device is that of the file
     * system, which stat may report differently.
     */
    uint64_t inode, offset; /* `offset`: the file's offset at `start` */
    uint32_t major, minor;
};

/*
 * Describes the mapping at an address. If `name` is not NULL, also stores the name as in
 * /proc/self/maps, or "" if the mapping has none. Returns 0 or an errno: ENOENT if the address is
 * in no mapping, EBADF if the file that the queries use is not open, ENAMETOOLONG if the name does
 * not fit. Any other errno means that the kernel cannot describe mappings. The variable errno is
 * kept. May be called on any thread; the function is no cancellation point.
 */
int gf_vma_query(uintptr_t at, struct gf_vma *ret, char *name, size_t size);

/*
 * Whether one mapping of a file contains the whole range. Shared memory counts as a file. False if
 * the kernel cannot describe mappings. Keeps errno. May be called on any thread.
 */
bool gf_vma_is_file(uintptr_t at, size_t bytes);

#endif
