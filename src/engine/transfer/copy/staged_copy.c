/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/copy/staged_copy.h"

#include "engine/transfer/copy/admission.h"
#include "engine/transfer/copy/rate.h"
#include "engine/transfer/copy/ring_size.h"
#include "engine/transfer/files/readahead.h"
#include "engine/transfer/hold.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/range_policy.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/tuning.h"

/*
 * Decides how a copy takes its place among the work of its stream. To other threads, a copy is one
 * operation of the stream. So it is cut into several DMAs only if no other thread uses the stream at
 * this time, and it then holds the stream (hold.h).
 */

enum gf_order {
    /* The stream is idle, and the copy holds it: the copy may be cut into several DMAs. */
    gf_order_cut,
    /*
     * The stream has unfinished work, or other threads use it now. A copy that need not wait is a
     * single DMA behind their work.
     */
    gf_order_queued,
    /* The copy has waited for the stream, which another thread has destroyed meanwhile. */
    gf_order_lost,
};

/*
 * Holds the idle stream. Another thread may have put work on the stream before it was held, so the
 * stream is queried again. Sets *ret_order to gf_order_cut if it is still idle.
 */
static enum gf_bypass hold_idle(const struct gf_stage_request *request, bool waits,
                                struct gf_stage_result *ret, enum gf_order *ret_order)
{
    enum gf_bypass reason = gf_bypass_none;
    bool idle = true;

    if (!gf_hold_begin(request->call->stream, request->context->handle, request->hold))
        return gf_bypass_none;
    reason = gf_pipeline_await_stream(request, waits ? GF_TUNE_IDLE_AGAIN_NS : GF_TUNE_IDLE_NS,
                                      &idle, ret);
    if (reason == gf_bypass_none && idle) {
        gf_hold_cut(request->hold);
        *ret_order = gf_order_cut;
        return gf_bypass_none;
    }
    gf_hold_end(request->hold);
    if (reason == gf_bypass_none && waits)
        gf_hold_note_shared(request->call->stream, request->context->handle);
    return reason;
}

/*
 * Chooses the order. `waits`: the driver's call would wait for the stream's earlier work before it
 * accesses the program's memory. Then this function waits for it, too, and the result is
 * gf_order_cut, or gf_bypass_shared if other threads use the stream: only the driver keeps them away
 * while the memory is accessed. Otherwise it waits for at most GF_TUNE_IDLE_NS. Takes no memory of the
 * ring. Otherwise returns the same as gf_pipeline_await_stream. `shared`: a call met a hold of the
 * stream lately.
 */
static enum gf_bypass gf_order_choose(const struct gf_stage_request *request, bool waits,
                                      bool shared, struct gf_stage_result *ret,
                                      enum gf_order *ret_order)
{
    bool idle = true;

    *ret_order = gf_order_queued;
    if (waits && (shared || !gf_hold_is_possible()))
        return gf_bypass_shared;
    enum gf_bypass reason =
        gf_pipeline_await_stream(request, waits ? 0 : GF_TUNE_IDLE_NS, &idle, ret);
    if (waits && reason == gf_bypass_none && !gf_hold_uses_stream(request->call->stream)) {
        *ret_order = gf_order_lost;
        return gf_bypass_none;
    }
    if (reason == gf_bypass_none && idle && !shared)
        reason = hold_idle(request, waits, ret, ret_order);
    if (*ret_order == gf_order_cut) /* the hold keeps the stream from now on */
        gf_hold_used_stream();
    else if (!waits) /* another thread may destroy the stream while a handler of a fault runs */
        gf_hold_uses_stream(request->call->stream);
    return reason == gf_bypass_none && waits && *ret_order != gf_order_cut ? gf_bypass_shared
                                                                           : reason;
}

/* The copy cannot use its own stream, so the driver makes it on the ring's stream. */
static enum gf_bypass leave_all(const struct gf_stage_request *request, struct gf_stage_result *ret)
{
    ret->result = CUDA_SUCCESS;
    ret->done = 0;
    ret->rest = gf_ring_stream(request->ring);
    return gf_bypass_none;
}

static bool is_shared(const struct gf_stage_request *request)
{
    return gf_hold_is_shared(request->call->stream, request->context->handle);
}

/*
 * Whether the caller alone copies this chunk and all later ones, because helpers could not access the
 * memory. The driver copies all if nothing was staged, and the program handles no faults.
 */
static bool goes_alone(const struct gf_pipeline *pipeline, uint64_t chunk)
{
    return chunk < pipeline->plan.chunks && (chunk || pipeline->guarded);
}

/* The bytes of the chunks from `first` to before `end`. */
static size_t bytes_between(const struct gf_pipeline *pipeline, uint64_t first, uint64_t end)
{
    return gf_min(gf_plan_chunk_offset(&pipeline->plan, end), pipeline->bytes) -
           gf_plan_chunk_offset(&pipeline->plan, first);
}

/*
 * The helpers fill the ring. The caller issues the DMAs in order, and copies pieces itself whenever
 * it has nothing else to do.
 */

/*
 * Stages an asynchronous copy on a stream that is busy, or that other threads use. The program's
 * memory is copied into the ring now, and one DMA of the whole copy is put on the stream.
 */
static enum gf_bypass h2d_stage_whole(const struct gf_stage_request *request,
                                      struct gf_stage_result *ret)
{
    struct gf_pipeline pipeline;
    enum gf_bypass reason = gf_bypass_none;
    bool broken = false; /* if true, the slot is abandoned, but the copy is complete */

    /* A host function that another thread puts on the stream now may write the source meanwhile. */
    if (!gf_hold_begin(request->call->stream, request->context->handle, request->hold))
        return gf_bypass_shared;
    if (!gf_pipeline_open_whole(&pipeline, request)) {
        gf_hold_end(request->hold);
        return gf_bypass_full;
    }
    bool read = gf_pipeline_read_whole(&pipeline);
    if (!read && (read = goes_alone(&pipeline, 0))) {
        gf_pipeline_copy_alone(&pipeline, 0);
        ret->alone = pipeline.bytes;
    }
    if (!read)
        reason = gf_bypass_unreadable;
    else if ((ret->result = gf_pipeline_issue(&pipeline, 0, request, &broken)))
        /* The driver makes the copy instead, and its call will return the error. */
        reason = gf_pipeline_unstaged(ret->result, broken);
    ret->result = CUDA_SUCCESS;
    ret->done = reason == gf_bypass_none ? request->call->bytes : 0;
    gf_pipeline_release(&pipeline, false);
    return reason;
}

/* The progress of a copy that is staged in chunks. */
struct progress {
    uint64_t issued;  /* chunks whose DMA is on the stream */
    uint64_t allowed; /* to the device: chunks whose pieces may be copied into the ring */
    uint64_t arrived; /* to the host: chunks that are in the ring */
    uint64_t placed;  /* to the host: chunks that are in the program's memory */
    CUresult result;
    bool broken; /* events fail, so no slot can be reused: the driver copies the rest */
};

static void send_chunk(const struct gf_stage_request *request, struct gf_pipeline *pipeline,
                       struct progress *p)
{
    p->result = gf_pipeline_issue(pipeline, p->issued, request, &p->broken);
    p->issued += p->result == CUDA_SUCCESS;
}

/* Counts the copy's bytes as under way. */
static void enter_copy(const struct gf_stage_request *request, enum gf_direction direction,
                       struct gf_stage_result *ret)
{
    ret->under_way = gf_under_way_enter(direction, gf_maker_library, request->call->bytes);
    ret->met_driver = gf_under_way_by_driver();
}

/*
 * Allows the next chunk to be copied into its slot, if the last DMA from that slot has ended. With
 * `wait`, waits for that DMA.
 */
static bool h2d_allow_next(const struct gf_stage_request *request, struct gf_pipeline *pipeline,
                           struct progress *p, bool wait)
{
    if (p->allowed >= gf_pipeline_end(pipeline) || p->allowed - p->issued >= pipeline->slots)
        return false;
    if (!gf_pipeline_has_ended(pipeline, p->allowed, wait, &p->broken))
        return false;
    if (!gf_pipeline_allow(pipeline, p->allowed))
        return false;
    p->allowed++;
    gf_readahead_advance(request->readahead, gf_plan_chunk_offset(&pipeline->plan, p->allowed));
    return true;
}

static void h2d_run(const struct gf_stage_request *request, struct gf_pipeline *pipeline,
                    struct progress *p)
{
    /* Events are read before the end: a piece that fails afterwards ends the wait. */
    for (uint32_t seen;
         seen = gf_pieces_events(&pipeline->job),
         p->issued < gf_pipeline_end(pipeline) && p->result == CUDA_SUCCESS && !p->broken;) {
        if (p->issued < p->allowed && gf_pipeline_is_copied(pipeline, p->issued))
            send_chunk(request, pipeline, p);
        else if (!h2d_allow_next(request, pipeline, p, false) && !p->broken &&
                 !gf_pieces_help(&pipeline->job)) {
            if (p->issued < p->allowed)
                gf_pieces_wait(&pipeline->job,
                               seen); /* helpers are copying the chunk's last pieces */
            else
                h2d_allow_next(request, pipeline, p, true);
        }
    }
}

/* Copies and issues the first chunk that helpers could not access, and all later ones. */
static void h2d_run_alone(const struct gf_stage_request *request, struct gf_pipeline *pipeline,
                          struct progress *p, struct gf_stage_result *ret)
{
    const uint64_t first = p->issued;

    if (p->result != CUDA_SUCCESS || p->broken || !goes_alone(pipeline, first))
        return;
    while (p->issued < pipeline->plan.chunks && p->result == CUDA_SUCCESS && !p->broken)
        if (p->issued < p->allowed ||
            gf_pipeline_has_ended(pipeline, p->issued, true, &p->broken)) {
            gf_pipeline_copy_alone(pipeline, p->issued);
            send_chunk(request, pipeline, p);
        }
    ret->alone = bytes_between(pipeline, first, p->issued);
}

/*
 * Waits until the data has arrived, if the call must not return earlier. This holds for a
 * synchronous call, and for a call whose DMAs moved to the ring's stream, because later work on the
 * call's own stream does not wait for the ring's stream. If events fail, waits for the stream
 * instead. Returns true if all DMAs are known to have ended.
 */
static bool h2d_arrive(const struct gf_stage_request *request, struct gf_pipeline *pipeline,
                       struct progress *p)
{
    if ((request->call->async && !pipeline->has_moved) || p->result != CUDA_SUCCESS)
        return false;
    if (gf_pipeline_await(pipeline, p->issued, &p->broken))
        return true;
    p->result = gf_setup.cuda->cuStreamSynchronize(pipeline->stream);
    return false;
}

static enum gf_bypass h2d_stage_chunks(const struct gf_stage_request *request, bool waits,
                                       struct gf_stage_result *ret)
{
    struct gf_pipeline pipeline;
    struct progress p = {.result = CUDA_SUCCESS};

    if (waits && request->hold->follows_legacy) {
        const enum gf_bypass reason = gf_pipeline_await_legacy(request, ret);
        if (reason != gf_bypass_none)
            return reason;
    }
    if (!gf_pipeline_open_chunks(&pipeline, request, false))
        return gf_bypass_full;
    if (!request->call->async && request->call->stream == CU_STREAM_LEGACY)
        gf_pipeline_move(&pipeline);
    p.allowed =
        gf_pipeline_start(&pipeline, gf_min(pipeline.plan.chunks, (uint64_t)pipeline.slots));
    h2d_run(request, &pipeline, &p);
    gf_pool_close(pipeline.pool, &pipeline.job);
    h2d_run_alone(request, &pipeline, &p, ret);
    const enum gf_bypass reason =
        p.issued ? gf_bypass_none : gf_pipeline_unstaged(p.result, p.broken);
    ret->done = gf_min(gf_plan_chunk_offset(&pipeline.plan, p.issued), pipeline.bytes);
    const bool idle = reason == gf_bypass_none && ret->done == pipeline.bytes &&
                      h2d_arrive(request, &pipeline, &p);
    ret->result = gf_pipeline_result(p.result);
    ret->rest = gf_pipeline_rest(&pipeline);
    gf_pipeline_release(&pipeline, idle);
    return reason;
}

/*
 * No memory of the ring is free for the copy as a whole. Waits for the copy's own stream, and cuts the
 * copy even if a call met a hold of the stream lately.
 */
static enum gf_bypass h2d_stage_later(const struct gf_stage_request *request,
                                      struct gf_stage_result *ret)
{
    enum gf_order order;

    gf_under_way_leave(gf_direction_h2d, gf_maker_library);
    const enum gf_bypass reason = gf_order_choose(request, true, false, ret, &order);
    enter_copy(request, gf_direction_h2d, ret);
    ret->stream_was_idle = reason == gf_bypass_none;
    ret->is_queued = false;
    return reason != gf_bypass_none ? reason
           : order == gf_order_lost ? leave_all(request, ret)
                                    : h2d_stage_chunks(request, false, ret);
}

/*
 * Whether the copy waits for the earlier work of the stream. The driver's call would do so for
 * synchronous copies, and for those of more than GF_TUNE_ASYNC_NOWAIT. Any kernel before the copy may
 * write its source if the GPU can.
 */
static bool h2d_waits(const struct gf_stage_request *request, struct gf_visible_mark *ret_mark)
{
    const struct gf_copy_call *const call = request->call;
    const bool pending = gf_visible_is_pending(call->stream, request->context->handle, ret_mark);

    if (!call->async)
        return true;
    if (call->bytes <= GF_TUNE_ASYNC_NOWAIT)
        return false;
    return gf_setup.options->async == gf_async_driver ||
           (gf_setup.options->async == gf_async_auto &&
            (pending || request->context->faults_pages));
}

static enum gf_bypass h2d_stage_queued(const struct gf_stage_request *request,
                                       struct gf_stage_result *ret)
{
    const enum gf_bypass reason = h2d_stage_whole(request, ret);

    if (reason != gf_bypass_full)
        return reason;
    /*
     * For this size the driver would not wait for the stream. The work on the stream may depend on
     * what this thread does next.
     */
    if (request->call->bytes <= GF_TUNE_ASYNC_NOWAIT) {
        /* A contiguous slot is not requested, because it would gain little. */
        gf_ring_want_more(request->ring);
        return gf_bypass_full;
    }
    gf_ring_want_contiguous(request->ring, request->call->bytes);
    gf_copy_stats_add(stream_waits, 1);
    return h2d_stage_later(request, ret);
}

enum gf_bypass gf_h2d_stage(const struct gf_stage_request *request, struct gf_stage_result *ret)
{
    struct gf_visible_mark mark;
    const bool async = request->call->async, waits = h2d_waits(request, &mark);
    enum gf_order order;
    const enum gf_bypass unstaged =
        gf_order_choose(request, waits, is_shared(request), ret, &order);

    if (unstaged != gf_bypass_none)
        return unstaged;
    if (order == gf_order_lost)
        return leave_all(request, ret);
    if (order == gf_order_cut)
        gf_visible_waited(&mark);
    ret->stream_was_idle = order != gf_order_queued;
    /*
     * On a GPU that accesses pageable memory directly, the stream's work may itself write the
     * pageable memory, so the copy must read it after that work.
     */
    if (async && !ret->stream_was_idle && request->context->shares_pages)
        return gf_bypass_shares_pages;
    ret->is_queued = !ret->stream_was_idle;
    if (ret->is_queued && gf_admission_is_automatic() &&
        gf_rate_advise((struct gf_copy_kind){gf_direction_h2d, true}, true, request->call->bytes) !=
            gf_rate_stage)
        return gf_bypass_slower;
    enter_copy(request, gf_direction_h2d, ret);
    return order == gf_order_cut ? h2d_stage_chunks(request, waits, ret)
                                 : h2d_stage_queued(request, ret);
}

/*
 * Synchronous and asynchronous calls return when the last byte is in the program's memory. The
 * caller issues DMAs into the ring ahead. Helpers and the caller copy from the ring to the
 * program's memory.
 */

/*
 * Allows the next chunk to be copied out of the ring if its DMA has ended. With `wait`, waits for
 * the DMA.
 */
static bool d2h_arrive(struct gf_pipeline *pipeline, struct progress *p, bool wait)
{
    if (p->arrived == p->issued)
        return false;
    if (!gf_pipeline_has_ended(pipeline, p->arrived, wait, &p->broken))
        return false;
    if (!gf_pipeline_allow(pipeline, p->arrived))
        return false;
    p->arrived++;
    return true;
}

/* Does one step that needs no wait. Returns false if no such step was possible. */
static bool d2h_step(const struct gf_stage_request *request, struct gf_pipeline *pipeline,
                     struct progress *p)
{
    if (p->issued < pipeline->plan.chunks && p->issued - p->placed < pipeline->slots) {
        send_chunk(request, pipeline, p);
        return true;
    }
    if (d2h_arrive(pipeline, p, false))
        return true;
    if (p->broken)
        return false;
    if (p->placed < p->arrived && gf_pipeline_is_copied(pipeline, p->placed)) {
        p->placed++;
        return true;
    }
    return gf_pieces_help(&pipeline->job);
}

static void d2h_run(const struct gf_stage_request *request, struct gf_pipeline *pipeline,
                    struct progress *p)
{
    for (uint32_t seen;
         seen = gf_pieces_events(&pipeline->job), /* as in h2d_run */
         p->placed < gf_pipeline_end(pipeline) && p->result == CUDA_SUCCESS && !p->broken;) {
        if (d2h_step(request, pipeline, p) || p->broken)
            continue;
        if (p->placed < p->arrived)
            gf_pieces_wait(&pipeline->job, seen); /* helpers are copying the chunk's last pieces */
        else
            d2h_arrive(pipeline, p, true);
    }
}

/* Places the first chunk that helpers could not access, and all later ones. */
static void d2h_run_alone(const struct gf_stage_request *request, struct gf_pipeline *pipeline,
                          struct progress *p, struct gf_stage_result *ret)
{
    const uint64_t first = p->placed;

    if (p->result != CUDA_SUCCESS || p->broken || !goes_alone(pipeline, first))
        return;
    while (p->placed < pipeline->plan.chunks && p->result == CUDA_SUCCESS && !p->broken)
        if (p->issued < pipeline->plan.chunks && p->issued - p->placed < pipeline->slots) {
            send_chunk(request, pipeline, p);
        } else if (gf_pipeline_has_ended(pipeline, p->placed, true, &p->broken)) {
            gf_pipeline_copy_alone(pipeline, p->placed++);
            p->arrived = gf_max(p->arrived, p->placed);
        }
    ret->alone = bytes_between(pipeline, first, p->placed);
}

/*
 * If the calling thread has a memory policy of its own, touches the absent pages of the destination.
 * Helpers would place them by their policy. No slot is held, because a touch may take long.
 */
static void touch_destination(const struct gf_copy_call *call)
{
    if (gf_range_policy_is_users() &&
        gf_absent_mostly((uintptr_t)call->dst, call->bytes, GF_TUNE_UNITS_SAMPLES))
        gf_populate_pages((void *)(uintptr_t)call->dst, call->bytes, true);
}

enum gf_bypass gf_d2h_stage(const struct gf_stage_request *request, struct gf_stage_result *ret)
{
    struct gf_pipeline pipeline;
    struct progress p = {.result = CUDA_SUCCESS};
    enum gf_order order;

    touch_destination(request->call);
    const enum gf_bypass unstaged = gf_order_choose(request, true, is_shared(request), ret, &order);

    if (unstaged != gf_bypass_none)
        return unstaged;
    if (order == gf_order_lost)
        return leave_all(request, ret);
    ret->stream_was_idle = true;
    enter_copy(request, gf_direction_d2h, ret);
    if (!gf_pipeline_open_chunks(&pipeline, request, true))
        return gf_bypass_full;
    if (request->call->stream == CU_STREAM_LEGACY)
        gf_pipeline_move(&pipeline);
    gf_pipeline_start(&pipeline, 0);
    d2h_run(request, &pipeline, &p);
    gf_pool_close(pipeline.pool, &pipeline.job);
    d2h_run_alone(request, &pipeline, &p, ret);
    ret->result = gf_pipeline_result(p.result);
    ret->done = gf_min(gf_plan_chunk_offset(&pipeline.plan, p.placed), pipeline.bytes);
    ret->rest = gf_pipeline_rest(&pipeline);
    gf_pipeline_release(&pipeline, p.arrived == p.issued && !p.broken);
    return p.placed ? gf_bypass_none : gf_pipeline_unstaged(p.result, p.broken);
}
