/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helpers fill the ring. The caller issues the DMAs in order, and copies pieces itself whenever
 * it has nothing else to do.
 */
#include "engine/transfer/copy/h2d.h"

#include "engine/transfer/hold.h"
#include "engine/transfer/capture_gate.h"
#include "engine/transfer/copy/admission.h"
#include "engine/transfer/copy/order.h"
#include "engine/transfer/copy/rate.h"
#include "engine/transfer/copy/under_way.h"
#include "engine/transfer/files/readahead.h"
#include "engine/transfer/mutation.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/staging/ring_grow.h"

static CUresult h2d_dma(const struct gf_stage_request *request, const struct gf_pipeline *pipeline,
                        uint64_t chunk, CUstream stream)
{
    const uint64_t to =
        GF_MUTATED(swaps_chunks) && chunk < 2 && pipeline->plan.chunks > 2 ? 1 - chunk : chunk;
    return gf_setup.cuda->cuMemcpyHtoDAsync_v2(
        request->call->dst + gf_plan_chunk_offset(&pipeline->plan, to),
        pipeline->slot[gf_pipeline_slot(pipeline, chunk)]->at, gf_pipeline_length(pipeline, chunk),
        GF_MUTATED(loses_the_stream) ? NULL : stream);
}

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

    if (!gf_pipeline_open_whole(&pipeline, request))
        return gf_bypass_full;
    if (!gf_pipeline_read_whole(&pipeline))
        reason = gf_bypass_unreadable;
    else if ((ret->result = gf_pipeline_issue(&pipeline, 0, h2d_dma, request, &broken)))
        /* The driver makes the copy instead, and its call will return the error. */
        reason = gf_is_capture_error(ret->result) ? gf_bypass_capture : gf_bypass_failed;
    ret->result = CUDA_SUCCESS;
    ret->done = request->call->bytes;
    gf_pipeline_release(&pipeline, false);
    return reason;
}

/* The progress of a copy that is staged in chunks. */
struct h2d_progress {
    uint64_t allowed; /* chunks whose pieces may be copied */
    uint64_t issued;  /* chunks whose DMA is on the stream */
    CUresult result;
    bool broken; /* events fail, so no slot can be reused: the driver copies the rest */
};

static void h2d_send(const struct gf_stage_request *request, struct gf_pipeline *pipeline,
                     struct h2d_progress *p)
{
    p->result = gf_pipeline_issue(pipeline, p->issued, h2d_dma, request, &p->broken);
    p->issued += p->result == CUDA_SUCCESS;
}

/*
 * Allows the next chunk to be copied into its slot, if the last DMA from that slot has ended. With
 * `wait`, waits for that DMA.
 */
static bool h2d_allow_next(const struct gf_stage_request *request, struct gf_pipeline *pipeline,
                           struct h2d_progress *p, bool wait)
{
    if (p->allowed >= gf_pipeline_end(pipeline) || p->allowed - p->issued >= pipeline->slots)
        return false;
    if (!GF_MUTATED(reuses_slots_early) &&
        !gf_pipeline_has_ended(pipeline, p->allowed, wait, &p->broken))
        return false;
    if (!gf_pipeline_allow(pipeline, p->allowed))
        return false;
    p->allowed++;
    gf_readahead_advance(request->readahead, gf_plan_chunk_offset(&pipeline->plan, p->allowed));
    return true;
}

static void h2d_run(const struct gf_stage_request *request, struct gf_pipeline *pipeline,
                    struct h2d_progress *p)
{
    while (p->issued < gf_pipeline_end(pipeline) && p->result == CUDA_SUCCESS && !p->broken) {
        const uint32_t seen = gf_job_events(&pipeline->job);
        if (p->issued < p->allowed &&
            (GF_MUTATED(sends_unread) || gf_pipeline_is_copied(pipeline, p->issued)))
            h2d_send(request, pipeline, p);
        else if (!h2d_allow_next(request, pipeline, p, false) && !p->broken &&
                 (GF_MUTATED(needs_helpers) || !gf_job_help(&pipeline->job))) {
            if (p->issued < p->allowed)
                gf_job_wait(&pipeline->job, seen); /* helpers are copying the chunk's last pieces */
            else
                h2d_allow_next(request, pipeline, p, true);
        }
    }
}

/*
 * Waits until the data has arrived, if the call must not return earlier. This holds for a
 * synchronous call, and for a call whose DMAs moved to the ring's stream, because later work on the
 * call's own stream does not wait for the ring's stream. If events fail, waits for the stream
 * instead. Returns true if all DMAs are known to have ended.
 */
static bool h2d_arrive(const struct gf_stage_request *request, struct gf_pipeline *pipeline,
                       struct h2d_progress *p)
{
    if (GF_MUTATED(returns_early))
        return true;
    if ((request->call->async && !pipeline->has_moved) || p->result != CUDA_SUCCESS)
        return false;
    if (gf_pipeline_await(pipeline, p->issued, &p->broken))
        return true;
    p->result = gf_setup.cuda->cuStreamSynchronize(pipeline->stream);
    return false;
}

static enum gf_bypass h2d_stage_chunks(const struct gf_stage_request *request,
                                       struct gf_stage_result *ret)
{
    struct gf_pipeline pipeline;
    struct h2d_progress p = {.result = CUDA_SUCCESS};

    if (!gf_pipeline_open_chunks(&pipeline, request, false))
        return gf_bypass_full;
    if (!request->call->async && request->call->stream == CU_STREAM_LEGACY)
        gf_pipeline_move(&pipeline);
    p.allowed =
        gf_pipeline_start(&pipeline, gf_min(pipeline.plan.chunks, (uint64_t)pipeline.slots));
    h2d_run(request, &pipeline, &p);
    gf_pool_close(pipeline.pool, &pipeline.job);
    const enum gf_bypass reason = p.issued                        ? gf_bypass_none
                                  : gf_is_capture_error(p.result) ? gf_bypass_capture
                                  : p.result || p.broken          ? gf_bypass_failed
                                                                  : gf_bypass_unreadable;
    ret->done = gf_min(gf_plan_chunk_offset(&pipeline.plan, p.issued), pipeline.bytes);
    const bool idle = reason == gf_bypass_none && ret->done == pipeline.bytes &&
                      h2d_arrive(request, &pipeline, &p);
    ret->result = p.result;
    ret->rest = gf_pipeline_rest(&pipeline);
    gf_pipeline_release(&pipeline, idle);
    return reason;
}

/* Counts the copy's bytes as under way. */
static void h2d_enter(const struct gf_stage_request *request, struct gf_stage_result *ret)
{
    ret->under_way = gf_under_way_enter(gf_direction_h2d, gf_maker_library, request->call->bytes);
    ret->met_driver = gf_under_way_by_driver();
}

/* No memory of the ring is free for the copy as a whole. Waits for the copy's own stream. */
static enum gf_bypass h2d_stage_later(const struct gf_stage_request *request,
                                      struct gf_stage_result *ret)
{
    gf_under_way_leave(gf_direction_h2d, gf_maker_library);
    const enum gf_bypass reason = gf_order_insist(request, ret);
    h2d_enter(request, ret);
    ret->stream_was_idle = reason == gf_bypass_none;
    ret->is_queued = false;
    return reason != gf_bypass_none ? reason : h2d_stage_chunks(request, ret);
}

/*
 * Whether the copy waits for the earlier work of the stream. The driver's call would do so for
 * synchronous copies, and for those of more than GF_TUNE_ASYNC_NOWAIT.
 */
static bool h2d_waits(const struct gf_copy_call *call, struct gf_visible_mark *ret_mark)
{
    const bool pending = gf_visible_is_pending(call->stream, ret_mark);

    if (!call->async)
        return true;
    if (call->bytes <= GF_TUNE_ASYNC_NOWAIT || GF_MUTATED(queues_always))
        return false;
    return gf_setup.options->async == gf_async_driver ||
           (gf_setup.options->async == gf_async_auto && pending);
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
    gf_copy_stats_stream_wait();
    return h2d_stage_later(request, ret);
}

enum gf_bypass gf_h2d_stage(const struct gf_stage_request *request, struct gf_stage_result *ret)
{
    struct gf_visible_mark mark;
    const bool async = request->call->async, waits = h2d_waits(request->call, &mark);
    enum gf_order order;
    const enum gf_bypass unstaged = gf_order_choose(request, waits, ret, &order);

    if (unstaged != gf_bypass_none)
        return unstaged;
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
        gf_rate_advise_queued(request->call->bytes) != gf_rate_stage)
        return gf_bypass_slower;
    h2d_enter(request, ret);
    return order == gf_order_cut || GF_MUTATED(sends_many) ? h2d_stage_chunks(request, ret)
                                                           : h2d_stage_queued(request, ret);
}
