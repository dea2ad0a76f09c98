/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a stream has unfinished work with results that the program may look at in its own memory
 * without a call, such as copies to page-locked memory (struct gf_visible). Above 2 MiB the driver's
 * asynchronous copy from pageable memory waits for such work, and programs rely on that.
 */
#ifndef GF_ENGINE_TRANSFER_CONTEXT_VISIBLE_H
#define GF_ENGINE_TRANSFER_CONTEXT_VISIBLE_H

#include "abi/cuda.h"
#include "abi/gputime_api.h"
#include "base/base.h"

/* The count of a stream before a wait for this stream. */
struct gf_visible_mark {
    struct gf_visible *of; /* NULL: unknown */
    uint32_t made;
};

/*
 * Returns whether visible results may be pending on the stream, or on one with which it is ordered.
 * If nothing is known about the stream, the result is true.
 */
bool gf_visible_is_pending(CUstream stream, struct gf_visible_mark *ret);
/* Called after the calling thread has waited for the stream since gf_visible_is_pending. */
void gf_visible_waited(const struct gf_visible_mark *mark);

#endif
