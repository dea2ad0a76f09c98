/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams that the calling thread could not list lately (preload/hook/submissions.h), so that
 * not each launch on such a stream asks the driver for facts about it. Each thread remembers a few
 * streams in its own memory. It forgets them when a stream or a context leaves the list, because
 * another one may then be listed, or may get the same handle.
 */
#ifndef GF_PRELOAD_HOOK_UNLISTED_H
#define GF_PRELOAD_HOOK_UNLISTED_H

#include "abi/cuda.h"
#include "base/base.h"

#define GF_UNLISTED_STREAMS 4u  /* of a thread */
#define GF_UNLISTED_RETRY 1000u /* after this many look-ups, the stream is tried again */

struct gf_unlisted {
    CUstream stream;
    int device;      /* to which the thread submits the stream's work */
    unsigned epoch;  /* gf_submissions_epoch before the thread tried to list the stream */
    unsigned looked; /* number of look-ups */
};

/* Returns NULL if the thread may try to list the stream. stream: not 0. */
const struct gf_unlisted *gf_unlisted_find(CUstream stream, unsigned epoch);
void gf_unlisted_add(CUstream stream, unsigned epoch, int device);

#endif
