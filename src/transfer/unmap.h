/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory that the program is about to unmap, as one that gets its batches from workers does
 * after each copy: most of that time the GPU has nothing to do.
 */
#ifndef GF_TRANSFER_UNMAP_H
#define GF_TRANSFER_UNMAP_H

#include "base/base.h"

/*
 * Instead of or before munmap of a range that lies in one shared mapping of memory that is a file's in name
 * only, if helpers are there already. True: done. False: munmap is to be called; several threads have taken the
 * pages out of this process's tables, if anything. Whatever munmap then answers, no byte is lost. Waits for
 * pieces that helpers have begun.
 */
bool gf_unmap(void *at, size_t bytes);

#endif
