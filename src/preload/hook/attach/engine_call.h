/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wraps a hook's call into the engine. During the call, the engine's own CUDA calls pass through,
 * and the thread cannot be cancelled. Keeps errno.
 */
#ifndef GF_PRELOAD_HOOK_ATTACH_ENGINE_CALL_H
#define GF_PRELOAD_HOOK_ATTACH_ENGINE_CALL_H

#include "preload/hook/attach/attach.h"
#include "preload/hook/hook_thread.h"

#include <errno.h>

struct gf_engine_call {
    const struct gf_engine *engine;
    int error, cancel;
};

/*
 * Returns false if there is no engine, and if called from inside the engine. In these cases, do not
 * call gf_engine_call_end.
 */
static inline bool gf_engine_call_begin(struct gf_engine_call *ret)
{
    ret->engine = gf_engine_enter();
    if (gf_likely(!ret->engine))
        return false;
    ret->error = errno;
    ret->cancel = gf_thread_hold_cancel();
    return true;
}

static inline void gf_engine_call_end(const struct gf_engine_call *call)
{
    gf_thread_release_cancel(call->cancel);
    errno = call->error;
    gf_engine_leave();
}

/*
 * The same as gf_engine_call_begin, but returns the engine's transfer functions. Returns NULL if
 * there are none, and if gf_engine_call_begin returned false. In these cases, do not call
 * gf_engine_call_end.
 */
static inline const struct gf_transfer_ops *gf_engine_call_transfer(struct gf_engine_call *ret)
{
    if (!gf_engine_call_begin(ret))
        return NULL;
    if (!ret->engine->transfer)
        gf_engine_call_end(ret);
    return ret->engine->transfer;
}

#endif
