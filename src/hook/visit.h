/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hook's visit to the engine: CUDA calls made in there pass through, the thread is not cancelled
 * in the midst of it, and errno comes back as it was.
 */
#ifndef GF_HOOK_VISIT_H
#define GF_HOOK_VISIT_H

#include "hook/attach.h"
#include "hook/thread.h"

#include <errno.h>

struct gf_visit {
    const struct gf_engine *engine;
    int error, cancel;
};

/* False, with nothing to end, while there is no engine, and for calls that come from inside one. */
static inline bool gf_visit_begin(struct gf_visit *ret)
{
    ret->engine = gf_engine_enter();
    if (gf_likely(!ret->engine))
        return false;
    ret->error = errno;
    ret->cancel = gf_thread_hold_cancel();
    return true;
}

static inline void gf_visit_end(const struct gf_visit *visit)
{
    gf_thread_release_cancel(visit->cancel);
    errno = visit->error;
    gf_engine_leave();
}

/* The engine's share in transfers, or NULL with nothing to end. */
static inline const struct gf_transfer_ops *gf_visit_transfer(struct gf_visit *ret)
{
    if (!gf_visit_begin(ret))
        return NULL;
    if (!ret->engine->transfer)
        gf_visit_end(ret);
    return ret->engine->transfer;
}

#endif
