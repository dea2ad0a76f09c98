/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the engine, calls it, opens the log. */
#pragma once

#include "abi/engine_api.h"
#include "base/base.h"
#include "preload/attach/counters.h"

/*
 * Called after cuInit succeeded. The first caller starts the library's thread, which loads the
 * engine, and waits for the load with a time limit. The first caller stops waiting if the library's
 * thread must wait for the loader's lock, because the lock's holder may be the caller, or may wait
 * for the caller. All other callers return at once. A child that is forked afterwards never loads
 * an engine, because the driver does not work in it. Keeps errno and dlerror. If the load fails,
 * every call passes through.
 */
void gf_attach(void);

/*
 * Returns the engine of this process. Returns NULL before the engine is loaded, and in a forked
 * child. Before the engine is loaded, a call reads only one word.
 */
const struct gf_engine *gf_engine(void);

/*
 * For hooks: returns the engine, and marks the calling thread, so that the engine's own CUDA calls
 * pass through. Returns NULL if the thread is already marked, and on threads of this library. After
 * each call that returns an engine, gf_engine_leave must be called.
 */
const struct gf_engine *gf_engine_enter(void);
void gf_engine_leave(void);

/*
 * Wraps a hook's call into the engine. During the call, the engine's own CUDA calls pass through,
 * and the thread cannot be cancelled. Keeps errno.
 */

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
 * The same as gf_engine_call_begin, but returns the functions for copies and pinned memory. NULL if
 * gf_engine_call_begin returned false, or the options turn both off; then do not call
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

/*
 * Run a statement with `engine` between gf_engine_call_begin and gf_engine_call_end; or with
 * `transfer`, the result of gf_engine_call_transfer. A macro's value is false if nothing runs.
 */
#define GF_WITH_ENGINE(statement)                                                                  \
    GF_WITHIN_ENGINE(gf_engine, engine, gf_engine_call_begin(&call_) ? call_.engine : NULL,        \
                     statement)
#define GF_WITH_TRANSFER(statement)                                                                \
    GF_WITHIN_ENGINE(gf_transfer_ops, transfer, gf_engine_call_transfer(&call_), statement)
#define GF_WITHIN_ENGINE(type, name, begin, statement)                                             \
    ({                                                                                             \
        struct gf_engine_call call_;                                                               \
        const struct type *const name = begin;                                                     \
        const bool runs_ = name;                                                                   \
        if (runs_) {                                                                               \
            statement;                                                                             \
            gf_engine_call_end(&call_);                                                            \
        }                                                                                          \
        runs_;                                                                                     \
    })
