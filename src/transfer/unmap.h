/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory that the program is about to unmap, as one that gets its batches from workers does
 * after each copy: most of that time the GPU has nothing to do.
 */
#ifndef GF_TRANSFER_UNMAP_H
#define GF_TRANSFER_UNMAP_H

#include "base/base.h"

/*
 * Before munmap of a range: takes its pages out of this process's tables by several threads, if it
 * lies in one shared mapping of memory that is a file's in name only, and helpers are there already.
 * Whatever munmap then answers, no byte is lost. Waits for pieces that helpers have begun.
 */
void gf_unmap_prepare(void *at, size_t bytes);

#endif
