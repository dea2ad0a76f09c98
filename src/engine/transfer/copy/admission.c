/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/copy/admission.h"

#include "base/atomic.h"
#include "base/fmt.h"
#include "base/log.h"
#include "engine/transfer/capture_gate.h"
#include "engine/transfer/copy/classify.h"
#include "engine/transfer/copy/rate.h"
#include "engine/transfer/copy/ring_size.h"
#include "engine/transfer/helper.h"
#include "engine/transfer/hold.h"
#include "engine/transfer/host_copy.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/prepare.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/tuning.h"

#include <limits.h>

/* Writes "are staged from 8388608 bytes on", or "are not staged". */
static void print_least(char *buf, size_t size, size_t least)
{
    if (least == SIZE_MAX)
        gf_fmt(buf, size, "are not staged");
    else
        gf_fmt(buf, size, "are staged from %zu bytes on", least);
}

/*
 * Called when the number of copying threads of a GPU has become known, or has changed.
 * `least`: the smallest size that they stage, in bytes; SIZE_MAX: they stage no copy.
 */
static void explain_threads(unsigned threads, const size_t least[gf_direction_count])
{
    char to[48], from[48];

    if (!gf_log_wants_area(gf_log_area_copy))
        return;
    print_least(to, sizeof(to), least[gf_direction_h2d]);
    print_least(from, sizeof(from), least[gf_direction_d2h]);
    gf_log_explain(gf_log_area_copy,
                   "a GPU has %u copying thread%s: copies to it %s, copies from it %s", threads,
                   threads == 1 ? "" : "s", to, from);
}

static struct {
    const char *off;
    bool is_automatic;
    /* The largest number of threads of any pool seen so far; 0 before the first pool. */
    _Atomic unsigned most_threads;
    /* gf_transfer_ops.copy_sharers points here. UINT_MAX: all known pools have too few threads. */
    _Atomic unsigned sharers;
    /*
     * Two counts of small copies (below GF_TUNE_EARLY_BYTES), each counted up to
     * GF_TUNE_EARLY_COPIES.
     */
    _Atomic unsigned early;      /* small copies for which the driver was not queried */
    _Atomic unsigned unprepared; /* small copies that passed all checks before check_prepares */
} state;

/* The settings. */

static bool has_needed_calls(const struct gf_cuda *c)
{
    return gf_context_is_possible(c) && c->cuCtxGetFlags && c->cuStreamIsCapturing &&
           (c->cuStreamGetCtx_v2 || c->cuStreamGetCtx) && c->cuThreadExchangeStreamCaptureMode &&
           c->cuPointerGetAttributes && c->cuEventCreate && c->cuEventRecord && c->cuEventQuery &&
           c->cuEventSynchronize && c->cuStreamQuery && c->cuStreamSynchronize &&
           c->cuStreamCreateWithPriority && c->cuStreamDestroy_v2 && c->cuMemHostRegister_v2 &&
           c->cuMemHostUnregister && c->cuMemcpyHtoD_v2 && c->cuMemcpyHtoD_v2_ptds &&
           c->cuMemcpyHtoDAsync_v2 && c->cuMemcpyDtoH_v2 && c->cuMemcpyDtoH_v2_ptds &&
           c->cuMemcpyDtoHAsync_v2;
}

static const char *why_off(void)
{
    if (gf_setup.options->stage == gf_stage_off)
        return "by option";
    if (gf_setup.options->mode == gf_mode_observe)
        return "observing only";
    if (!has_needed_calls(gf_setup.cuda))
        return "the driver lacks a function";
    return gf_populate_is_possible() ? NULL : "the kernel has no MADV_POPULATE_READ (Linux 5.14)";
}

/* The smallest copy in bytes that any pool stages while no other thread copies. */
static size_t least_of_any(enum gf_direction direction)
{
    return !state.is_automatic             ? gf_setup.options->stage_min
           : direction == gf_direction_h2d ? GF_TUNE_MIN_H2D
                                           : GF_TUNE_MIN_D2H;
}

/*
 * The smallest copy that the hooks must offer. With GPUFEED=observe no copy is staged, but copies are
 * offered, because they are counted. Without the functions in has_needed_calls, memory cannot be
 * classified.
 */
static size_t offer_least(void)
{
    if (gf_setup.options->stage == gf_stage_off || !has_needed_calls(gf_setup.cuda))
        return SIZE_MAX;
    return gf_min(least_of_any(gf_direction_h2d), least_of_any(gf_direction_d2h));
}

static void explain_start(void)
{
    if (state.off)
        gf_log_explain(gf_log_area_copy, "staging is off: %s", state.off);
    else
        gf_log_explain(
            gf_log_area_copy,
            "with four or more copying threads, copies to the GPU are staged if they have at least "
            "%zu bytes, copies from the GPU if they have at least %zu bytes",
            least_of_any(gf_direction_h2d), least_of_any(gf_direction_d2h));
}

void gf_admission_start(struct gf_transfer_ops *ret)
{
    state.off = why_off();
    gf_store_relaxed(&state.sharers, GF_TUNE_SHARERS);
    state.is_automatic = gf_setup.options->stage_min == GF_SIZE_AUTO;
    ret->copy_least = offer_least();
    ret->copy_least_shared =
        state.is_automatic && ret->copy_least != SIZE_MAX ? GF_TUNE_MIN_SHARED : ret->copy_least;
    ret->copy_sharers = &state.sharers;
    explain_start();
}

const char *gf_admission_off(void)
{
    return state.off;
}

bool gf_admission_is_automatic(void)
{
    return state.is_automatic;
}

/* Sizes and threads. */

static enum gf_bypass bypass_if(bool condition, enum gf_bypass reason)
{
    return condition ? reason : gf_bypass_none;
}

/*
 * Returns the smallest copy in bytes for which staging pays in pools with enough threads, or with
 * `few`. SIZE_MAX: staging never pays.
 */
static size_t least_with(enum gf_direction direction, bool few)
{
    static const size_t automatic[gf_direction_count][2] = {
        [gf_direction_h2d] = {GF_TUNE_MIN_SHARED, GF_TUNE_MIN_FEW_H2D},
        [gf_direction_d2h] = {GF_TUNE_MIN_SHARED, GF_TUNE_MIN_FEW_D2H}};

    return state.is_automatic ? automatic[direction][few] : gf_setup.options->stage_min;
}

/*
 * Returns the smallest copy that a pool of `threads` threads stages. SIZE_MAX: such a pool stages
 * no copy. One thread is never faster than the driver, so it stages only if GPUFEED_STAGE_THREADS
 * is 1.
 */
static size_t least_for(enum gf_direction direction, unsigned threads)
{
    return threads == 1 && gf_setup.options->stage_threads != 1
               ? SIZE_MAX
               : least_with(direction, threads < GF_TUNE_FEW_THREADS);
}

/* The same for a copy during which no other thread copies. */
static size_t least_alone(enum gf_direction direction, unsigned threads)
{
    return gf_max(least_for(direction, threads), least_of_any(direction));
}

unsigned gf_admission_threads(size_t ret_least[gf_direction_count])
{
    const unsigned threads = gf_load_relaxed(&state.most_threads);

    /* Before the first copy, staging may not have been set up. */
    for (unsigned direction = 0; direction < gf_direction_count; direction++)
        ret_least[direction] = threads ? least_alone(direction, threads) : 0;
    return threads;
}

static enum gf_bypass check_threads(const struct gf_admission *a, unsigned threads)
{
    const size_t least = least_for(a->kind.direction, threads);

    if (state.off)
        return gf_bypass_off;
    if (least == SIZE_MAX)
        return gf_bypass_few_threads;
    return bypass_if(a->call->bytes < least, gf_bypass_small);
}

/*
 * Called before the copy's pool is known: checks the size as for the largest pool seen so far. One
 * in 256 copies of a thread always passes, because it may belong to a new context, whose pool may
 * have more threads.
 */
static enum gf_bypass check_most_threads(const struct gf_admission *a)
{
    static __thread uint8_t checks;
    const unsigned most = gf_load_relaxed(&state.most_threads);

    if (!most || most >= GF_TUNE_FEW_THREADS || ++checks == 0)
        return gf_bypass_none;
    return check_threads(a, most);
}

static void note_most_threads(unsigned threads)
{
    unsigned most = gf_load_relaxed(&state.most_threads);
    while (most < threads)
        if (gf_cas_weak_relaxed(&state.most_threads, &most, threads)) {
            gf_store_relaxed(&state.sharers,
                             threads < GF_TUNE_FEW_THREADS ? UINT_MAX : GF_TUNE_SHARERS);
            return;
        }
}

static void note_threads(struct gf_pool *pool, unsigned threads)
{
    note_most_threads(threads);
    if (gf_pool_note_threads(pool, threads) && !state.off)
        explain_threads(threads,
                        (size_t[]){[gf_direction_h2d] = least_alone(gf_direction_h2d, threads),
                                   [gf_direction_d2h] = least_alone(gf_direction_d2h, threads)});
}

static bool is_small(const struct gf_admission *a)
{
    return a->call->bytes < GF_TUNE_EARLY_BYTES && state.is_automatic;
}

static bool is_among_first(_Atomic unsigned *seen)
{
    return gf_load_relaxed(seen) < GF_TUNE_EARLY_COPIES &&
           gf_add_relaxed(seen, 1) < GF_TUNE_EARLY_COPIES;
}

/* The checks. Each returns a reason, or gf_bypass_none. */

/*
 * The first small copies of a process are not staged. Querying the driver about their memory would
 * take a third of the time of such a copy.
 */
static enum gf_bypass check_early(struct gf_admission *a)
{
    return bypass_if(a->is_directed && !state.off && is_small(a) && is_among_first(&state.early),
                     gf_bypass_early);
}

/*
 * If no known pool can stage the copy, the copy is only counted, and the cached kind of its memory
 * suffices for that. But later copies wait for an asynchronous copy from page-locked memory. If the
 * called function defines the direction, known_reason can be set before any query to the driver.
 */
static enum gf_bypass check_host_memory(struct gf_admission *a)
{
    if (a->is_directed)
        a->known_reason = check_most_threads(a);
    const bool counts =
        a->known_reason != gf_bypass_none && (!a->call->async || a->call->way == gf_copy_d2h);
    const enum gf_bypass reason = gf_classify_host(a->call, counts, &a->kind.direction);
    if (reason != gf_bypass_none)
        return reason;
    if (!a->is_directed)
        a->known_reason = check_most_threads(a);
    return bypass_if(a->call->bytes < least_with(a->kind.direction, false), gf_bypass_small);
}

static enum gf_bypass check_known_pools(struct gf_admission *a)
{
    return a->known_reason;
}

/*
 * Without a current context, queries about a stream fail, and tools would report the error as the
 * program's.
 */
static enum gf_bypass check_current(struct gf_admission *a)
{
    CUcontext current = NULL;
    (void)a;
    return bypass_if(gf_setup.cuda->cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current,
                     gf_bypass_context);
}

static enum gf_bypass check_capture(struct gf_admission *a)
{
    a->captures = gf_captures_begun();
    return bypass_if(gf_is_captured(a->call->stream), gf_bypass_capture);
}

/* A program that makes only a few small copies gets no helpers and no ring. */
static enum gf_bypass check_prepares(struct gf_admission *a)
{
    if (is_small(a))
        return bypass_if(is_among_first(&state.unprepared), gf_bypass_warming);
    gf_store_relaxed(&state.early, GF_TUNE_EARLY_COPIES);
    gf_store_relaxed(&state.unprepared, GF_TUNE_EARLY_COPIES);
    return gf_bypass_none;
}

/*
 * While another thread captures a stream, the driver allows event queries and waits only in relaxed
 * mode.
 */
static enum gf_bypass relax_capture_mode(struct gf_admission *a)
{
    a->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    a->is_relaxed = gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&a->mode) == CUDA_SUCCESS;
    return bypass_if(!a->is_relaxed, gf_bypass_failed);
}

/* CU_CTX_SYNC_MEMOPS: the program wants every copy to be synchronous. */
static bool is_synchronous(void)
{
    unsigned flags = 0;
    return gf_setup.cuda->cuCtxGetFlags(&flags) != CUDA_SUCCESS || (flags & CU_CTX_SYNC_MEMOPS);
}

/*
 * Whether the copy is left to the driver because the GPU accesses pageable memory directly. Such a
 * GPU may be slow with pages of files, so GPUFEED_STAGE=files stages copies from files to the GPU.
 */
static bool is_left_to_sharing(const struct gf_admission *a)
{
    return a->context->shares_pages &&
           (gf_setup.options->stage != gf_stage_files || a->kind.direction != gf_direction_h2d ||
            !gf_vma_is_file((uintptr_t)a->call->src, a->call->bytes));
}

static enum gf_bypass enter_context(struct gf_admission *a)
{
    a->context = gf_context_enter();
    if (!a->context)
        return gf_bypass_context;
    if (is_left_to_sharing(a))
        return gf_bypass_shares_pages;
    return bypass_if(is_synchronous(), gf_bypass_device_memory);
}

static enum gf_bypass check_stream(struct gf_admission *a)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    CUcontext context = NULL;
    CUgreenCtx green = NULL;
    /*
     * During a capture, cuStreamGetCtx fails for the legacy stream, and invalidates the capture. So
     * it is called only after gf_issue_enter.
     */
    if (!gf_issue_enter(a->call->stream, &a->captures))
        return gf_bypass_capture;
    const CUresult result = cuda->cuStreamGetCtx_v2
                                ? cuda->cuStreamGetCtx_v2(a->call->stream, &context, &green)
                                : cuda->cuStreamGetCtx(a->call->stream, &context);
    gf_issue_leave();
    if (result != CUDA_SUCCESS || green || context != a->context->handle)
        return gf_bypass_stream;
    gf_hold_publish(a->call->stream, context);
    return gf_bypass_none;
}

static enum gf_bypass check_pool(struct gf_admission *a)
{
    const unsigned threads = gf_pool_threads(a->context->pool);
    note_threads(a->context->pool, threads);
    return check_threads(a, threads);
}

/*
 * Helpers must not work for a real-time caller (helper.h). They must not touch memory of a
 * program that handles page faults itself, if the kernel refuses guarded copies (host_copy.h).
 * Without helpers, staging is never faster than the driver.
 */
static enum gf_bypass check_caller(struct gf_admission *a)
{
    (void)a;
    return bypass_if(gf_is_realtime() ||
                         (gf_faults_are_handled() && !gf_program_copy_is_possible()),
                     gf_bypass_caller);
}

/*
 * On the per-thread stream, the driver's synchronous copy of up to GF_TUNE_ASYNC_NOWAIT bytes
 * returns before its DMA. That DMA also waits for the legacy stream, whose work may wait for
 * something that this thread does later. A staged copy would wait for its DMA, and both would wait
 * forever.
 */
static enum gf_bypass check_per_thread(struct gf_admission *a)
{
    return bypass_if(a->call->stream == CU_STREAM_PER_THREAD &&
                         a->kind.direction == gf_direction_h2d &&
                         a->call->bytes <= GF_TUNE_ASYNC_NOWAIT,
                     gf_bypass_small);
}

static enum gf_bypass check_load(struct gf_admission *a)
{
    return bypass_if(gf_context_calls(a->context) >
                         GF_TUNE_CALLS_PER_THREAD * gf_pool_threads(a->context->pool),
                     gf_bypass_crowded);
}

static enum gf_bypass check_rate(struct gf_admission *a)
{
    if (!state.is_automatic)
        return gf_bypass_none;
    const enum gf_rate_advice advice = gf_rate_advise(a->kind, false, a->call->bytes);
    a->wants_duration = advice == gf_rate_measure;
    return bypass_if(advice != gf_rate_stage, gf_bypass_slower);
}

static enum gf_bypass check_ends(struct gf_admission *a)
{
    return gf_classify_ends(a->call, a->kind.direction, a->context->device);
}

static enum gf_bypass check_ring(struct gf_admission *a)
{
    const enum gf_when when = gf_when_for(a->call->bytes);

    a->ring = state.off ? NULL : gf_ring_of(a->context);
    if (!a->ring || !gf_ring_is_on(a->ring) || gf_pool_has_failed(a->context->pool))
        return gf_bypass_off;
    gf_prepare_helpers(a->context->pool, when);
    if (when == gf_when_now)
        /* Smaller copies may have deferred their requests. This copy sends them at once. */
        gf_prepare_deferred();
    const bool ready = gf_ring_ready(a->ring, a->call->bytes);
    return ready ? bypass_if(!gf_ring_stream(a->ring), gf_bypass_failed) : gf_bypass_warming;
}

/* The decision. */

enum { SYNC = 1, ASYNC = 2, EACH = SYNC | ASYNC };

/*
 * The checks are made in this order, and the first one that returns a reason decides. Checks
 * without a driver call come first where possible, because many threads on few CPUs contend for the
 * driver's lock. A captured copy does not run now and must count as captured, so check_capture
 * comes before check_known_pools. Synchronous copies are never captured, so for them
 * check_known_pools comes first. If a capture on a blocking stream forbids a synchronous copy, the
 * capture query itself fails, and the copy counts as captured.
 */
static const struct {
    unsigned calls; /* kinds of calls (SYNC, ASYNC) to which the check applies */
    enum gf_bypass (*check)(struct gf_admission *a);
} checks[] = {
    {EACH, check_early},        /* early */
    {EACH, check_host_memory},  /* ends, pinned, failed, batch, small */
    {SYNC, check_known_pools},  /* few_threads, small */
    {EACH, check_current},      /* context */
    {EACH, check_capture},      /* capture */
    {ASYNC, check_known_pools}, /* few_threads, small */
    {EACH, check_prepares},     /* warming */
    {EACH, relax_capture_mode}, /* failed */
    {EACH, enter_context},      /* context, shares_pages, device_memory */
    {EACH, check_stream},       /* capture, stream */
    {EACH, check_pool},         /* few_threads, small */
    {EACH, check_caller},       /* caller */
    {SYNC, check_per_thread},   /* small */
    {EACH, check_load},         /* crowded */
    {EACH, check_rate},         /* slower */
    {EACH, check_ends},         /* pinned, range, device_memory, failed */
    {EACH, check_ring},         /* off, warming, failed */
};

enum gf_bypass gf_admission_begin(struct gf_admission *a)
{
    const struct gf_copy_call *call = a->call;
    enum gf_bypass reason = gf_bypass_none;

    a->kind.async = call->async;
    a->kind.direction = call->way == gf_copy_d2h ? gf_direction_d2h : gf_direction_h2d;
    a->is_directed = call->way == gf_copy_h2d || call->way == gf_copy_d2h;
    a->known_reason = gf_bypass_none;
    for (size_t i = 0; i < GF_ARRAY_LEN(checks) && reason == gf_bypass_none; i++)
        if (checks[i].calls & (call->async ? ASYNC : SYNC))
            reason = checks[i].check(a);
    return reason;
}

void gf_admission_end(struct gf_admission *a)
{
    if (a->context)
        gf_context_leave(a->context);
    if (a->is_relaxed)
        gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&a->mode);
}
