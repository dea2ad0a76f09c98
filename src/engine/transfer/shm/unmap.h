/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faster unmapping of shared memory by the program. A process that gets its batches from workers
 * unmaps one batch after each copy, and the GPU is idle for most of that time.
 */
#ifndef GF_ENGINE_TRANSFER_SHM_UNMAP_H
#define GF_ENGINE_TRANSFER_SHM_UNMAP_H

#include "base/base.h"

/*
 * Called before the program's munmap of a range. Threads remove the range's pages from this
 * process's page tables; no byte is lost, even if munmap fails. Acts only on a range in one mapping
 * of shared memory, and only if helper threads run already. Waits for pieces that helpers have
 * begun, so nothing is left to do when munmap returns. True: the range is unmapped, and the caller
 * must not call munmap (GPUFEED_UNMAP=later). This is gf_transfer_ops.unmap.
 */
bool gf_unmap(void *at, size_t bytes);

#endif
