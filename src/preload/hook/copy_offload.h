/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "preload/attach/attach.h"
#include "preload/hook/driver_call.h"
#include "preload/hook/timed_call.h"

/*
 * Returns the size of the smallest copy that is offered to the engine, in bytes; SIZE_MAX without
 * an engine.
 */
static inline size_t gf_copy_offload_least(void)
{
    const struct gf_engine *engine = gf_engine();
    return engine && engine->transfer ? engine->transfer->copy_least : SIZE_MAX;
}

/* Returns the size of the smallest copy that is counted as in progress, in bytes. */
static inline size_t gf_copy_offload_counted(void)
{
    const struct gf_engine *engine = gf_engine();
    return engine && engine->transfer ? engine->transfer->copy_least_shared : SIZE_MAX;
}

/* A copy that is offered to the engine. If the engine declines it, the driver makes it. */
struct gf_copy_offload {
    const struct gf_copy_call *call;
    CUresult result;                /* set if the engine made the copy */
    struct gf_copy_refusal refusal; /* set if the engine declined the copy */
    struct gf_copy_wait wait;       /* set if the copy was offered */
    /*
     * The engine declined the copy, and its stream had unfinished work just before the driver's
     * call, which therefore waits for that work.
     */
    bool behind;
    uint64_t major_faults; /* of the thread, before the driver's call; set if behind */
    uint64_t since;        /* when the engine declined, in ns; 0 if the copy was not offered */
    bool counted;          /* the copy is counted as in progress */
    bool made;             /* the engine made the copy */
};

/*
 * Both functions offer a copy to the engine, and return true if the engine made the copy.
 * gf_copy_offload_large is for copies of at least gf_copy_offload_counted bytes.
 * gf_copy_offload_large first counts the copy as in progress, and offers the copy only if it is
 * large enough.
 */
bool gf_copy_offload_to_engine(struct gf_copy_offload *offload);
bool gf_copy_offload_large(struct gf_copy_offload *offload, enum gf_hook hook, bool linear);
/* The number of submissions of the calling thread; 0: they are not counted. */
uint64_t gf_copy_offload_submitted(void);
void gf_copy_offload_ended(const struct gf_copy_offload *offload);

/*
 * Counts a copy, and offers it to the engine if it is large enough. linear: whether the copy has a
 * shape that can be staged. If this returns true, the engine made the copy, and the hook must
 * return ret->result. If this returns false, the hook must call the driver, and then
 * gf_copy_offload_end.
 */
static inline bool gf_copy_offload(struct gf_copy_offload *ret, enum gf_hook hook,
                                   const struct gf_copy_call *call, bool linear)
{
    ret->call = call;
    ret->since = 0;
    ret->behind = false;
    ret->counted = false;
    ret->made = false;
    if (gf_thread.inside)
        return false;
    gf_count_bytes(hook, call->bytes);
    ret->made = gf_unlikely(call->bytes >= gf_copy_offload_counted()) &&
                gf_copy_offload_large(ret, hook, linear);
    return ret->made;
}

/* Called after the driver's call. Returns `result`. */
static inline CUresult gf_copy_offload_end(const struct gf_copy_offload *offload, CUresult result)
{
    if (gf_unlikely(offload->counted || offload->since))
        gf_copy_offload_ended(offload);
    return result;
}

/*
 * Whether the driver may read the source of a copy to the device after the call: it is page-locked,
 * or that is unknown, because the copy was not offered. Smaller copies never count.
 */
#define GF_COPY_READ_LATER ((size_t)1 << 20)
static inline bool gf_copy_reads_later(const struct gf_copy_offload *offload)
{
    return offload->since ? !offload->wait.pageable
                          : !offload->made && offload->call->bytes >= GF_COPY_READ_LATER;
}

/*
 * Called after an asynchronous copy, whose destination may be page-locked memory of the program. If
 * its source is, the program sees that it may write there again.
 */
static inline CUresult gf_copy_is_visible(const struct gf_copy_offload *offload, CUresult result)
{
    return offload->call->way == gf_copy_h2d && !gf_copy_reads_later(offload)
               ? result
               : gf_submit_visible(offload->call->stream, result);
}

/*
 * These macros wrap a copy, and record that it was submitted. Only a blocking copy waits, so only
 * blocking copies are timed.
 */
#define GF_RUN_ASYNC(symbol, call, copy)                                                           \
    gf_copy_is_visible(&offload, GF_SUBMIT((call).stream, gf_work_copy, copy))
#define GF_RUN_BLOCKING(symbol, call, copy)                                                        \
    GF_SUBMIT((call).stream, gf_work_copy,                                                         \
              GF_WAITED(gf_timed_driver_copy, #symbol, (call).bytes,                               \
                        gf_copy_is_idle((call).stream), copy))
