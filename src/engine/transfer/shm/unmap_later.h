/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUFEED_UNMAP=later: shared memory whose pages a helper frees after munmap has returned. Moving
 * the mapping to another address moves only page tables.
 */
#ifndef GF_ENGINE_TRANSFER_SHM_UNMAP_LATER_H
#define GF_ENGINE_TRANSFER_SHM_UNMAP_LATER_H

#include "base/base.h"

struct gf_pool;

/*
 * True: nothing is mapped in the range any more, as after munmap. False: nothing has changed,
 * because little memory is left, or its amount is not known yet, or the kernel refused. The range is
 * one whole mapping of a deleted file in /dev/shm. Opens no file. Keeps errno. Any thread.
 */
bool gf_unmap_move(struct gf_pool *pool, void *at, size_t bytes);

/* The bytes that were moved and are not freed yet. */
uint64_t gf_unmap_pending(void);

#endif
