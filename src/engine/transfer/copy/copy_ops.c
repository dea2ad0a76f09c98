/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path of a copy from the hook to the DMA: admission.c decides whether the copy is staged,
 * staged_copy.c stages it, and this file counts and times the outcome.
 */
#include "engine/transfer/copy/copy_ops.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/transfer/copy/admission.h"
#include "engine/transfer/copy/rate.h"
#include "engine/transfer/copy/staged_copy.h"
#include "engine/transfer/files/readahead.h"
#include "engine/transfer/prepare.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/stats.h"
#include "engine/transfer/tuning.h"

/*
 * With GPUFEED_DEBUG=copy, a line is written for the 1st, 2nd, 4th, 8th, ... copy of each direction,
 * kind and outcome, so that a training loop does not flood standard error.
 */

/*
 * The number of copies so far, by direction, kind of call and outcome. gf_bypass_none: the copy was
 * staged.
 */
static _Atomic unsigned seen_reasons[gf_direction_count][2][gf_bypass_count + 1];

/*
 * Counts a copy, and returns its number among the copies of the same direction, kind and outcome.
 * 0: no line is written for this copy.
 */
static unsigned number_of(struct gf_copy_kind kind, enum gf_bypass outcome)
{
    if (!gf_log_wants_area(gf_log_area_copy))
        return 0;
    const unsigned number =
        1 + gf_add_relaxed(&seen_reasons[kind.direction][kind.async][outcome], 1);
    return number & (number - 1) ? 0 : number;
}

static const char *way_of(struct gf_copy_kind kind)
{
    static const char *const ways[gf_direction_count][2] = {
        [gf_direction_h2d] = {"synchronous, to the GPU", "asynchronous, to the GPU"},
        [gf_direction_d2h] = {"synchronous, from the GPU", "asynchronous, from the GPU"},
    };
    return ways[kind.direction][kind.async];
}

static void explain_staged(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns)
{
    const unsigned number = number_of(kind, gf_bypass_none);
    if (number)
        gf_log_explain(gf_log_area_copy, "%s, %lu bytes: staged in %lu us (copy %u of this kind)",
                       way_of(kind), bytes, ns / 1000, number);
}

static void explain_bypassed(struct gf_copy_kind kind, enum gf_bypass reason, uint64_t bytes)
{
    const unsigned number = number_of(kind, reason);
    if (number)
        gf_log_explain(gf_log_area_copy,
                       "%s, %lu bytes: not staged, reason %s: %s (copy %u of this kind)",
                       way_of(kind), bytes, gf_bypass_name(reason), gf_bypass_text(reason), number);
}

static void count_bypass(const struct gf_admission *admission, enum gf_bypass reason)
{
    gf_copy_stats_bypassed(admission->kind, reason, admission->call->bytes);
    explain_bypassed(admission->kind, reason, admission->call->bytes);
}

/*
 * Whether the stream is idle. Called before the driver makes a copy whose duration is wanted. If
 * the driver's call would wait for the stream, waits for the stream first. If another thread destroys
 * the stream meanwhile, sets ret->rest.
 */
static bool is_idle_now(const struct gf_admission *admission, struct gf_stage_result *ret)
{
    const struct gf_copy_call *call = admission->call;
    const struct gf_stage_request request = {.call = call,
                                             .context = admission->context,
                                             .ring = gf_ring_of(admission->context),
                                             .captures = admission->captures};
    const bool waits = !call->async || admission->kind.direction == gf_direction_d2h;
    bool idle = false;

    if (!request.ring || !gf_ring_is_on(request.ring) || (waits && !gf_hold_is_possible()))
        return false;
    if (gf_pipeline_await_stream(&request, waits ? 0 : GF_TUNE_IDLE_NS, &idle, ret) !=
        gf_bypass_none)
        return false;
    if (waits && !gf_hold_uses_stream(call->stream))
        ret->rest = gf_ring_stream(request.ring);
    return waits || idle;
}

/*
 * Whether a copy with this outcome accesses pageable memory within the call. A copy with another
 * outcome accesses other memory, may be refused by the driver, or runs later.
 */
static bool reads_now(enum gf_bypass reason)
{
    switch (reason) {
    case gf_bypass_early:
    case gf_bypass_pinned:
    case gf_bypass_ends:
    case gf_bypass_batch:
    case gf_bypass_capture:
    case gf_bypass_stream:
    case gf_bypass_context:
    case gf_bypass_device_memory:
    case gf_bypass_range:
    case gf_bypass_caller:
    case gf_bypass_unreadable:
    case gf_bypass_failed:
        return false;
    default:
        return true;
    }
}

/*
 * Called before the hold of a copy ends that the driver makes. False: another thread destroys the
 * stream as soon as the hold ends. Otherwise no thread destroys it until gf_hold_used_stream.
 */
static bool keeps_stream(const struct gf_copy_call *call, const struct gf_stage_result *staged)
{
    return !staged->hold.ticket || gf_hold_uses_stream(call->stream);
}

static enum gf_bypass stage_copy(struct gf_admission *admission, struct gf_stage_result *ret)
{
    const struct gf_copy_call *call = admission->call;
    enum gf_bypass reason = gf_admission_begin(admission);
    unsigned readahead = 0;

    if (admission->kind.direction == gf_direction_h2d && reads_now(reason))
        readahead = gf_readahead_begin((const void *)(uintptr_t)call->src, call->bytes);
    if (reason == gf_bypass_none) {
        const struct gf_stage_request request = {.call = call,
                                                 .context = admission->context,
                                                 .ring = admission->ring,
                                                 .captures = admission->captures,
                                                 .readahead = readahead,
                                                 .hold = &ret->hold};
        reason = admission->kind.direction == gf_direction_h2d ? gf_h2d_stage(&request, ret)
                                                               : gf_d2h_stage(&request, ret);
        if (reason == gf_bypass_full && !gf_ring_is_on(admission->ring))
            reason = gf_bypass_failed;
        if (reason != gf_bypass_none && !keeps_stream(call, ret)) {
            ret->rest = gf_ring_stream(admission->ring);
            reason = gf_bypass_none;
        }
    } else if (reason == gf_bypass_slower && admission->wants_duration) {
        ret->stream_was_idle = is_idle_now(admission, ret);
        reason = ret->rest ? gf_bypass_none : reason;
    }
    if (reason == gf_bypass_none || !reads_now(reason)) {
        gf_readahead_end(readahead);
        readahead = 0;
    }
    ret->readahead = readahead;
    gf_admission_end(admission);
    return reason;
}

/*
 * Waits for the stream. The program's own copy may run beside another thread's capture, but in the
 * thread's usual capture mode this wait would fail, and would invalidate that capture.
 */
static CUresult await(CUstream stream)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool is_relaxed = gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
    const CUresult result = gf_setup.cuda->cuStreamSynchronize(stream);
    if (is_relaxed)
        gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&mode);
    return result;
}

static CUresult copy_rest_on(CUstream stream, const struct gf_copy_call *rest,
                             enum gf_direction direction)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    return direction == gf_direction_h2d
               ? cuda->cuMemcpyHtoDAsync_v2(rest->dst, (const void *)(uintptr_t)rest->src,
                                            rest->bytes, stream)
               : cuda->cuMemcpyDtoHAsync_v2((void *)(uintptr_t)rest->dst, rest->src, rest->bytes,
                                            stream);
}

static CUresult copy_rest_synchronously(const struct gf_copy_call *rest,
                                        enum gf_direction direction)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    const bool per_thread = rest->stream == CU_STREAM_PER_THREAD;

    if (direction == gf_direction_d2h) {
        void *to = (void *)(uintptr_t)rest->dst;
        return per_thread ? cuda->cuMemcpyDtoH_v2_ptds(to, rest->src, rest->bytes)
                          : cuda->cuMemcpyDtoH_v2(to, rest->src, rest->bytes);
    }
    const void *from = (const void *)(uintptr_t)rest->src;
    const CUresult result = per_thread ? cuda->cuMemcpyHtoD_v2_ptds(rest->dst, from, rest->bytes)
                                       : cuda->cuMemcpyHtoD_v2(rest->dst, from, rest->bytes);
    /*
     * If the rest is small, the driver's call may return before all bytes have arrived. So this
     * function waits for the stream.
     */
    return result ? result : await(rest->stream);
}

/*
 * Lets the driver copy the bytes that were not staged, because events fail. If the DMAs have moved to
 * the ring's stream, the driver uses that stream, and the call waits for it.
 */
static CUresult copy_rest(const struct gf_copy_call *call, enum gf_direction direction,
                          const struct gf_stage_result *staged)
{
    struct gf_copy_call rest = *call;

    rest.dst += staged->done;
    rest.src += staged->done;
    rest.bytes -= staged->done;
    if (!staged->rest)
        return call->async ? copy_rest_on(call->stream, &rest, direction)
                           : copy_rest_synchronously(&rest, direction);
    const CUresult result = copy_rest_on(staged->rest, &rest, direction);
    return result ? result : await(staged->rest);
}

/* Whether the driver's call for a declined copy moves bytes of pageable memory now. */
static bool is_pageable_now(enum gf_bypass reason)
{
    return reason != gf_bypass_early && reason != gf_bypass_pinned && reason != gf_bypass_ends &&
           reason != gf_bypass_capture;
}

static void decline(const struct gf_admission *admission, enum gf_bypass reason,
                    const struct gf_stage_result *staged, struct gf_copy_refusal *ret)
{
    const struct gf_copy_kind kind = admission->kind;

    count_bypass(admission, reason);
    *ret = (struct gf_copy_refusal){
        .direction = kind.direction,
        .reason = reason,
        .stream_was_idle = staged->stream_was_idle,
        .is_queued = staged->is_queued,
        .readahead = staged->readahead,
        .under_way = is_pageable_now(reason) ? gf_under_way_enter(kind.direction, gf_maker_driver,
                                                                  admission->call->bytes)
                                             : 0};
}

/* Counts a copy that the library made. outcome: not gf_bypass_none if the driver copied all bytes. */
static void count_made(const struct gf_admission *admission, enum gf_bypass outcome, uint64_t ns)
{
    const struct gf_copy_kind kind = admission->kind;
    const size_t bytes = admission->call->bytes;

    if (outcome == gf_bypass_none) {
        gf_copy_stats_staged(kind, bytes, ns);
        explain_staged(kind, bytes, ns);
    } else {
        count_bypass(admission, outcome);
        gf_copy_stats_driver_time(kind, outcome, bytes, ns);
    }
    gf_longest_copies_add(kind.direction, outcome, bytes, ns);
}

bool gf_copy_ops_copy(const struct gf_copy_call *call, CUresult *ret_result,
                      struct gf_copy_refusal *ret_refusal, struct gf_copy_wait *ret_wait)
{
    struct gf_admission admission = {.call = call};
    struct gf_stage_result staged = {0};
    const uint64_t begun = gf_now_ns();
    const enum gf_bypass reason = stage_copy(&admission, &staged);
    const struct gf_copy_kind kind = admission.kind;
    /*
     * The rate check ignores a staged copy if the driver copied pageable memory at the same time,
     * because staging then waited for the driver's lock.
     */
    const bool met_driver = staged.met_driver || gf_under_way_by_driver();
    const uint64_t under_way =
        staged.under_way
            ? (staged.under_way + gf_under_way_leave(kind.direction, gf_maker_library)) / 2
            : 0;

    *ret_wait = (struct gf_copy_wait){
        .to_device = kind.direction == gf_direction_h2d,
        .pageable = reads_now(reason),
        .queued = reason == gf_bypass_none && staged.is_queued,
        .ns = staged.stream_wait_ns,
    };
    if (reason != gf_bypass_none) {
        gf_hold_end(&staged.hold);
        decline(&admission, reason, &staged, ret_refusal);
        return false;
    }
    *ret_result = staged.result;
    if (staged.alone)
        gf_copy_stats_rest(kind.direction, staged.alone);
    if (staged.result == CUDA_SUCCESS && staged.done < call->bytes)
        *ret_result = copy_rest(call, kind.direction, &staged);
    else if (staged.result == CUDA_SUCCESS && !met_driver && !staged.alone &&
             gf_admission_is_automatic())
        gf_rate_staged(kind, staged.is_queued, call->bytes, gf_now_ns() - staged.stream_done_ns,
                       under_way);
    gf_hold_end(&staged.hold);
    gf_hold_used_stream();
    count_made(&admission, staged.rest && !staged.done ? gf_bypass_shared : gf_bypass_none,
               gf_now_ns() - begun);
    return true;
}

void gf_copy_ops_declined(const struct gf_copy_call *call, const struct gf_copy_refusal *refusal,
                          uint64_t ns)
{
    const struct gf_copy_kind kind = {(enum gf_direction)refusal->direction, call->async};
    const enum gf_bypass reason = (enum gf_bypass)refusal->reason;

    gf_hold_used_stream();
    gf_readahead_end(refusal->readahead);
    gf_prepare_deferred();
    const uint64_t under_way =
        refusal->under_way
            ? (refusal->under_way + gf_under_way_leave(kind.direction, gf_maker_driver)) / 2
            : 0;
    /*
     * An early copy may use pinned memory, and a captured copy does not run now. So neither is
     * timed.
     */
    if (reason == gf_bypass_early || reason == gf_bypass_capture)
        return;
    gf_copy_stats_driver_time(kind, reason, call->bytes, ns);
    gf_longest_copies_add(kind.direction, reason, call->bytes, ns);
    if ((reason == gf_bypass_slower || reason == gf_bypass_full) &&
        (refusal->stream_was_idle || refusal->is_queued))
        gf_rate_driver(kind, !refusal->stream_was_idle, call->bytes, ns, under_way);
}

/* Whether the stream is held for all members of the batch to which the copy belongs. */
static bool holds_batch(const struct gf_admission *admission)
{
    const CUstream stream = admission->call->stream;
    const CUcontext context = admission->context->handle;

    return gf_hold_is_batch(stream, context) ||
           (!gf_hold_is_shared(stream, context) && gf_hold_begin_batch(stream, context));
}

bool gf_copy_ops_fits(const struct gf_copy_call *call)
{
    struct gf_admission admission = {.call = call};
    enum gf_bypass reason = gf_admission_begin(&admission);

    if (reason == gf_bypass_none && !holds_batch(&admission))
        reason = gf_bypass_shared;
    gf_admission_end(&admission);
    if (reason != gf_bypass_none)
        count_bypass(&admission, reason);
    /*
     * The driver may make this copy as part of a batch, and gf_copy_ops_declined is not called for
     * a batch. So deferred requests are sent here.
     */
    gf_prepare_deferred();
    return reason == gf_bypass_none;
}
