/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/cuda.h"
#include "preload/attach/counters.h"
#include "preload/attach/driver.h"
#include "preload/attach/submissions.h"

/*
 * The hooks of the driver. A hook calls the driver first, with the caller's arguments, and returns
 * the driver's result. The hook's own work follows, and only if the driver succeeded. A hook reads
 * no out-parameter that is NULL, and keeps errno. If the installed driver lacks the function, the
 * hook returns CUDA_ERROR_NOT_FOUND.
 *
 * Two kinds of hooks do something before the driver's call. Copies, and calls for pinned memory,
 * are offered to the engine before the driver is called (on_copy.c, on_pinned.c). The engine is
 * notified before a context ends (on_context.c).
 */

#define GF_CU(symbol) __typeof__(symbol) gf_on_##symbol;
#include "abi/hooks.def"

/* Exports a hook under the driver's name, so that all look-ups return the same address. */
#define GF_ENTRY(symbol)                                                                           \
    GF_EXPORT __typeof__(symbol) symbol __attribute__((alias("gf_on_" #symbol)))

/*
 * Returns the driver's function, or NULL if the driver lacks it. Counts the call, unless the call
 * comes from the engine.
 */
#define GF_REAL(symbol)                                                                            \
    ({                                                                                             \
        if (!gf_thread.inside)                                                                     \
            gf_count(gf_hook_##symbol);                                                            \
        const struct gf_cuda *cuda_ = gf_driver_functions();                                       \
        gf_likely(cuda_) ? cuda_->symbol : NULL;                                                   \
    })

/* Begins a hook: sets `real` to the driver's function, or returns if the driver lacks it. */
#define GF_FIND_REAL(symbol)                                                                       \
    __typeof__(symbol) *const real = GF_REAL(symbol);                                              \
    if (!real)                                                                                     \
    return CUDA_ERROR_NOT_FOUND

/* Defines and exports a hook that returns `result`, an expression that calls `real`. */
#define GF_HOOK(symbol, parameters, result)                                                        \
    CUresult gf_on_##symbol parameters                                                             \
    {                                                                                              \
        GF_FIND_REAL(symbol);                                                                      \
        return result;                                                                             \
    }                                                                                              \
    GF_ENTRY(symbol)

/*
 * Defines the hooks of both stream flavours of a function. `hook` is a macro whose parameters are the
 * symbol, the stream that is meant by the stream argument 0, and the further arguments.
 */
#define GF_BLOCKING_PAIR(hook, symbol, ...)                                                        \
    hook(symbol, CU_STREAM_LEGACY, ##__VA_ARGS__);                                                 \
    hook(symbol##_ptds, CU_STREAM_PER_THREAD, ##__VA_ARGS__)
#define GF_STREAM_PAIR(hook, symbol, ...)                                                          \
    hook(symbol, CU_STREAM_LEGACY, ##__VA_ARGS__);                                                 \
    hook(symbol##_ptsz, CU_STREAM_PER_THREAD, ##__VA_ARGS__)

/*
 * Wraps a call by which the program submits work to a stream (preload/attach/submissions.h). Inside the
 * engine, such a call is that of a signal handler: the engine calls the driver's own functions.
 */

/*
 * Returns the stream's record of work, for a stream that is not in the first slot of the look-up.
 * Creates the record if there is none. Sets *ret_stream as gf_submitter.stream. Keeps errno.
 */
_Atomic unsigned *gf_submit_find(unsigned set, CUstream stream, uintptr_t *ret_stream);
/*
 * Called if the stream's record does not contain this kind of work, because the sampler saw the
 * stream empty, or because the record is new. Keeps errno.
 */
void gf_submit_first(const struct gf_submission *submission);
/*
 * Called while copies hold streams. If one of them holds this stream, waits for its end, with a
 * limit (engine/transfer/hold.h). Keeps errno.
 */
void gf_submit_await(CUstream stream, bool begins_capture);

static inline _Atomic unsigned *gf_submit_work_of(unsigned set, CUstream stream,
                                                  uintptr_t *ret_stream)
{
    struct gf_stream_slot *slot;

    *ret_stream = (uintptr_t)stream;
    if (stream == CU_STREAM_LEGACY)
        return &gf_submissions.legacy_work;
    if (stream == CU_STREAM_PER_THREAD)
        return &gf_submissions.submitters[set - 1].own_work;
    slot = gf_submissions_quick(stream);
    if (gf_unlikely(!slot))
        return gf_submit_find(set, stream, ret_stream);
    *ret_stream = gf_submissions_stream_of(slot, stream);
    return &slot->work;
}

/* Enters a call that puts something on the stream. */
static inline uintptr_t gf_submit_enter(unsigned set, CUstream stream, uintptr_t published,
                                        bool begins_capture)
{
    const uintptr_t outer = gf_submissions_enter(set, published);
    if (gf_submissions_are_held())
        gf_submit_await(stream, begins_capture);
    return outer;
}

/* The value for gf_submitter.stream, from the first slot of the look-up. */
static inline uintptr_t gf_submit_published(CUstream stream)
{
    const struct gf_stream_slot *slot =
        (uintptr_t)stream > GF_SUBMIT_FILLING ? gf_submissions_quick(stream) : NULL;
    return slot ? gf_submissions_stream_of(slot, stream) : (uintptr_t)stream;
}

static inline void gf_submit_begin(struct gf_submission *ret, CUstream stream, unsigned work)
{
    uintptr_t published;

    ret->set = 0;
    if (gf_unlikely(!gf_submissions_on()) || gf_thread.ours)
        return;
    ret->set = gf_counters_mine();
    ret->work = work;
    gf_count_add(ret->set, &gf_submissions.submitters[ret->set - 1].begun, 1);
    ret->stream_work = gf_submit_work_of(ret->set, stream, &published);
    ret->outer = gf_submit_enter(ret->set, stream, published, false);
    if (gf_unlikely((gf_load_relaxed(ret->stream_work) & work) != work))
        gf_submit_first(ret);
}

/*
 * Orders the calling thread's store of `begun` before its second test of the record, in
 * gf_submit_end (see clear_seen in engine/gputime/questions.c). On x86, the driver's call contains
 * a locked instruction, which is a full barrier. On arm64, the driver's locks are only acquire and
 * release operations, so a fence is needed.
 */
static inline void gf_submit_fence(void)
{
#if defined(__x86_64__)
    atomic_signal_fence(memory_order_seq_cst);
#else
    gf_fence_seq_cst();
#endif
}

/*
 * Tests the record again, because the sampler may have seen the stream empty, and cleared its work,
 * just before the driver's call. `ended` is stored after the record, by a release store. So if the
 * sampler sees that the call has ended, it also sees the record.
 */
static inline void gf_submit_end(const struct gf_submission *submission)
{
    if (gf_unlikely(!submission->set))
        return;
    gf_submit_fence();
    if (gf_unlikely((gf_load_relaxed(submission->stream_work) & submission->work) !=
                    submission->work) &&
        submission->stream_work != &gf_submissions_elsewhere)
        atomic_fetch_or(submission->stream_work, submission->work);
    gf_count_add_release(submission->set, &gf_submissions.submitters[submission->set - 1].ended, 1);
    gf_submissions_leave(submission->set, submission->outer);
}

/* stream: never 0. The macro's value is the call's result. */
#define GF_SUBMIT(stream, work, call)                                                              \
    ({                                                                                             \
        struct gf_submission submission_;                                                          \
        gf_submit_begin(&submission_, stream, work);                                               \
        const CUresult submitted_ = (call);                                                        \
        gf_submit_end(&submission_);                                                               \
        submitted_;                                                                                \
    })

/* Called after a call with visible results (struct gf_visible) was submitted. Returns `result`. */
CUresult gf_submit_visible(CUstream stream, CUresult result);
/* The same as GF_SUBMIT, for a call with visible results. */
#define GF_SUBMIT_VISIBLE(stream, work, call)                                                      \
    gf_submit_visible(stream, GF_SUBMIT(stream, work, call))
/*
 * Called before a wait for the stream. Returns the count of which the program then knows the first
 * *ret_made results; NULL if it may know none.
 */
struct gf_visible *gf_submit_await_visible(CUstream stream, uint32_t *ret_made);

/*
 * Wraps a call that puts something other than work on a stream, such as an event. GPU time does not
 * count it.
 */
#define GF_ORDERED(of, call) GF_ORDERED_AS(of, false, call)
#define GF_ORDERED_AS(of, begins_capture, call)                                                    \
    ({                                                                                             \
        const CUstream stream_ = (of);                                                             \
        const unsigned set_ = gf_submissions_on() && !gf_thread.ours ? gf_counters_mine() : 0;     \
        const uintptr_t outer_ =                                                                   \
            set_ ? gf_submit_enter(set_, stream_, gf_submit_published(stream_), begins_capture)    \
                 : 0;                                                                              \
        const CUresult ordered_ = (call);                                                          \
        if (set_)                                                                                  \
            gf_submissions_leave(set_, outer_);                                                    \
        ordered_;                                                                                  \
    })

/*
 * Define the hooks of both stream flavours of a function that submits work, if the hooks only record
 * the submission. of: the function's stream argument. The last arguments are its parameters.
 */
#define GF_SUBMIT_BLOCKING(symbol, work, ...)                                                      \
    GF_BLOCKING_PAIR(GF_SUBMIT_HOOK, symbol, GF_SUBMIT, NULL, work, __VA_ARGS__)
#define GF_SUBMIT_STREAM(symbol, of, work, ...)                                                    \
    GF_STREAM_PAIR(GF_SUBMIT_HOOK, symbol, GF_SUBMIT, of, work, __VA_ARGS__)
#define GF_SUBMIT_STREAM_VISIBLE(symbol, of, work, ...)                                            \
    GF_STREAM_PAIR(GF_SUBMIT_HOOK, symbol, GF_SUBMIT_VISIBLE, of, work, __VA_ARGS__)
#define GF_SUBMIT_HOOK(symbol, null_stream, submit, of, work, ...)                                 \
    GF_HOOK(symbol, (GF_PARAMETERS(__VA_ARGS__)),                                                  \
            submit((of) ? (of) : (null_stream), work, real(GF_ARGUMENTS(__VA_ARGS__))))
