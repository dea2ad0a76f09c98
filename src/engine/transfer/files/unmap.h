/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

/*
 * Makes the program's munmap of shared memory faster. A process that gets its batches from worker
 * processes unmaps one batch after each copy, and the GPU is idle for most of the time that munmap
 * takes.
 */

/*
 * Called before the program's munmap of a range. Several threads remove the range's pages from this
 * process's page tables; no byte is lost, even if munmap fails. Does nothing unless the range lies
 * in one mapping of a tensor that PyTorch shares, and helper threads already run. Waits for pieces that helpers
 * have begun, so no helper works on the range during munmap.
 *
 * GPUFEED_UNMAP=later: if the range is the whole mapping of a deleted file, the file stays open, and
 * munmap need not free its pages. Then the result is not NULL, and the caller passes it to
 * gf_unmapped once munmap has returned. This is gf_transfer_ops.unmap.
 */
void *gf_unmap(void *at, size_t bytes);

/*
 * Called after munmap, with the result of gf_unmap and whether munmap failed. A helper frees the
 * file's pages, unless another process has the file open. Keeps errno. This is
 * gf_transfer_ops.unmapped.
 */
void gf_unmapped(void *kept, bool failed);

/* The bytes of mappings whose files a helper has not freed yet. */
uint64_t gf_unmap_pending(void);
