/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

/*
 * GPUFEED_UNMAP=later: a helper frees the pages of shared memory after the program's munmap has
 * returned. Until then the mapping is kept at another address. Moving it takes little time, because
 * the kernel moves only page tables.
 */

/* The bytes of mappings that were moved and are not freed yet. */
uint64_t gf_unmap_pending(void);

/*
 * Makes the program's munmap of shared memory faster. A process that gets its batches from worker
 * processes unmaps one batch after each copy, and the GPU is idle for most of the time that munmap
 * takes.
 */

/*
 * Called before the program's munmap of a range. Several threads remove the range's pages from this
 * process's page tables; no byte is lost, even if munmap fails. Does nothing unless the range lies
 * in one mapping of a tensor that PyTorch shares, and helper threads already run. Waits for pieces that helpers
 * have begun, so no helper works on the range during munmap. True: the range is unmapped, and the
 * caller must not call munmap (GPUFEED_UNMAP=later). This is gf_transfer_ops.unmap.
 */
bool gf_unmap(void *at, size_t bytes);
