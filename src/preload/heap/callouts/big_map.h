/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls of the big-block store (big.h). Calls that remove pages are visible to
 * registration caches (monitored_call.h). The caller holds no lock. The functions may change errno.
 */
#ifndef GF_PRELOAD_HEAP_CALLOUTS_BIG_MAP_H
#define GF_PRELOAD_HEAP_CALLOUTS_BIG_MAP_H

#include "base/base.h"

/* Maps `size` bytes at a multiple of `alignment`. Returns 0 if the kernel refuses. */
uintptr_t gf_big_map(size_t size, size_t alignment);
/* Records a mapping of gf_big_map, and gives it its memory policy and huge pages. */
void gf_big_mapped(uintptr_t start, size_t size);
/* Undoes gf_big_map for a mapping that was not recorded. */
void gf_big_unmap_new(uintptr_t start, size_t size);

/*
 * Grows a recorded mapping in place. Returns 0, or an error: ENOMEM if the addresses behind it are
 * used, EFAULT if the program has split the mapping.
 */
int gf_big_grow(uintptr_t start, size_t before, size_t after);
/*
 * Moves the pages of a recorded mapping to the start of an unrecorded one, which becomes recorded.
 * Returns false if that failed; then the new mapping is lost, because the kernel may have unmapped
 * it already.
 */
bool gf_big_move(uintptr_t start, size_t before, uintptr_t to, size_t after);

/*
 * Prepares the mapping of a freed block for another block: undoes what the program may have set for
 * the pages of its block (mprotect, madvise about forks). Returns false if the mapping must be
 * unmapped, because pages are locked: in glibc, too, the lock ends with the block.
 */
bool gf_big_renew(uintptr_t start, size_t size);

/* Unmaps a recorded mapping, or a part of it. If the kernel refuses, only removes the pages. */
void gf_big_unmap(uintptr_t start, size_t size);

#endif
