/* SPDX-License-Identifier: Apache-2.0 */
/* One mapping of this process, by PROCMAP_QUERY (Linux 6.11) instead of reading /proc/self/maps. */
#ifndef GF_ENGINE_TRANSFER_MEMORY_VMA_QUERY_H
#define GF_ENGINE_TRANSFER_MEMORY_VMA_QUERY_H

#include "base/base.h"

/* Opens the file that the queries use; called within cuInit (os/kept_file.h). */
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
    uint64_t inode, offset; /* `offset`: of `start` */
    uint32_t major, minor;
};

/*
 * Describes the mapping at an address. If `name` is not NULL, also stores the name as in
 * /proc/self/maps, or "" if the mapping has none. Returns 0 or an errno: ENOENT if there is no
 * mapping, EBADF if the file is not open, ENAMETOOLONG if the name does not fit. Any other errno
 * means that the kernel cannot describe mappings. Keeps errno. Any thread; no cancellation point.
 */
int gf_vma_query(uintptr_t at, struct gf_vma *ret, char *name, size_t size);

/*
 * Whether one mapping of a file holds the whole range. Shared memory is a file, too. False if the
 * kernel cannot describe mappings. Keeps errno. Any thread.
 */
bool gf_vma_is_file(uintptr_t at, size_t bytes);

#endif
