/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sizes of pinned buffers that the program frees while it runs, so that it may allocate them
 * again. Only buffers of these sizes are kept after a free. A size is a number of whole huge pages,
 * as of the driver's mappings. Any thread; no lock, no CUDA call.
 */
#ifndef GF_ENGINE_TRANSFER_PINNED_RECYCLED_H
#define GF_ENGINE_TRANSFER_PINNED_RECYCLED_H

#include "base/base.h"

/* Whether buffers of this size are observed: from 2 MiB to 32 MiB. */
bool gf_recycled_covers(size_t bytes);

/* The driver has allocated a block for the program. */
void gf_recycled_allocated(const void *at, size_t bytes);
/* The program frees a block of the driver; another address is ignored. */
void gf_recycled_freed(const void *at);

/* The program frees a buffer of the library. */
void gf_recycled_note(size_t bytes);

/* Whether the program has freed a buffer of this size. */
bool gf_recycled(size_t bytes);

#endif
