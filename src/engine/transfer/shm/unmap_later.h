/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUFEED_UNMAP=later: a helper frees the pages of shared memory after the program's munmap has
 * returned. Until then the mapping is kept at another address. Moving it takes little time, because
 * the kernel moves only page tables.
 */
#ifndef GF_ENGINE_TRANSFER_SHM_UNMAP_LATER_H
#define GF_ENGINE_TRANSFER_SHM_UNMAP_LATER_H

#include "base/base.h"

struct gf_pool;

/*
 * Moves a mapping away, and lets a helper free it. The range must be one whole mapping of a deleted
 * file in /dev/shm. True: nothing is mapped in the range any more, as after munmap. False: nothing
 * has changed, because little memory is left, the amount of memory left is not known yet, or the
 * kernel refused. Opens no file. Keeps errno. May be called on any thread.
 */
bool gf_unmap_move(struct gf_pool *pool, void *at, size_t bytes);

/* The bytes of mappings that were moved and are not freed yet. */
uint64_t gf_unmap_pending(void);

#endif
