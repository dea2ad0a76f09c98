/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synchronous and asynchronous calls return when the last byte is in the program's memory. The
 * caller issues DMAs into the ring ahead. Helpers and the caller copy from the ring to the
 * program's memory.
 */
#include "engine/transfer/copy/d2h.h"

#include "engine/transfer/capture_gate.h"
#include "engine/transfer/copy/order.h"
#include "engine/transfer/copy/under_way.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/range_policy.h"
#include "engine/transfer/mutation.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/tuning.h"

/* The progress of a copy, in chunks. */
struct d2h_progress {
    uint64_t issued;  /* chunks whose DMA is on the stream */
    uint64_t arrived; /* chunks that are in the ring */
    uint64_t placed;  /* chunks that are in the program's memory */
    CUresult result;
    bool broken; /* events fail: the driver copies the rest */
};

static CUresult d2h_dma(const struct gf_stage_request *request, const struct gf_pipeline *pipeline,
                        uint64_t chunk, CUstream stream)
{
    return gf_setup.cuda->cuMemcpyDtoHAsync_v2(
        pipeline->slot[gf_pipeline_slot(pipeline, chunk)]->at,
        request->call->src + gf_plan_chunk_offset(&pipeline->plan, chunk),
        gf_pipeline_length(pipeline, chunk), stream);
}

static void d2h_send(const struct gf_stage_request *request, struct gf_pipeline *pipeline,
                     struct d2h_progress *p)
{
    p->result = gf_pipeline_issue(pipeline, p->issued, d2h_dma, request, &p->broken);
    p->issued += p->result == CUDA_SUCCESS;
}

/*
 * Allows the next chunk to be copied out of the ring if its DMA has ended. With `wait`, waits for
 * the DMA.
 */
static bool d2h_arrive(struct gf_pipeline *pipeline, struct d2h_progress *p, bool wait)
{
    if (p->arrived == p->issued)
        return false;
    if (!GF_MUTATED(takes_unarrived) &&
        !gf_pipeline_has_ended(pipeline, p->arrived, wait, &p->broken))
        return false;
    if (!gf_pipeline_allow(pipeline, p->arrived))
        return false;
    p->arrived++;
    return true;
}

/* Does one step that needs no wait. Returns false if no such step was possible. */
static bool d2h_step(const struct gf_stage_request *request, struct gf_pipeline *pipeline,
                     struct d2h_progress *p)
{
    if (p->issued < pipeline->plan.chunks && p->issued - p->placed < pipeline->slots) {
        d2h_send(request, pipeline, p);
        return true;
    }
    if (d2h_arrive(pipeline, p, false))
        return true;
    if (p->broken)
        return false;
    if (p->placed < p->arrived &&
        (GF_MUTATED(returns_unplaced) || gf_pipeline_is_copied(pipeline, p->placed))) {
        p->placed++;
        return true;
    }
    return gf_job_help(&pipeline->job);
}

static void d2h_run(const struct gf_stage_request *request, struct gf_pipeline *pipeline,
                    struct d2h_progress *p)
{
    while (p->placed < gf_pipeline_end(pipeline) && p->result == CUDA_SUCCESS && !p->broken) {
        const uint32_t seen = gf_job_events(&pipeline->job);
        if (d2h_step(request, pipeline, p) || p->broken)
            continue;
        if (p->placed < p->arrived)
            gf_job_wait(&pipeline->job, seen); /* helpers are copying the chunk's last pieces */
        else
            d2h_arrive(pipeline, p, true);
    }
}

/* Counts the copy's bytes as under way. */
static void d2h_enter(const struct gf_stage_request *request, struct gf_stage_result *ret)
{
    ret->under_way = gf_under_way_enter(gf_direction_d2h, gf_maker_library, request->call->bytes);
    ret->met_driver = gf_under_way_by_driver();
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
    struct d2h_progress p = {.result = CUDA_SUCCESS};
    enum gf_order order = gf_order_cut;

    touch_destination(request->call);
    const enum gf_bypass unstaged =
        GF_MUTATED(takes_ring_first) ? gf_bypass_none : gf_order_choose(request, true, ret, &order);

    if (unstaged != gf_bypass_none)
        return unstaged;
    ret->stream_was_idle = true;
    d2h_enter(request, ret);
    if (!gf_pipeline_open_chunks(&pipeline, request, true))
        return gf_bypass_full;
    if (request->call->stream == CU_STREAM_LEGACY)
        gf_pipeline_move(&pipeline);
    gf_pipeline_start(&pipeline, 0);
    d2h_run(request, &pipeline, &p);
    gf_pool_close(pipeline.pool, &pipeline.job);
    ret->result = p.result;
    ret->done = gf_min(gf_plan_chunk_offset(&pipeline.plan, p.placed), pipeline.bytes);
    ret->rest = gf_pipeline_rest(&pipeline);
    gf_pipeline_release(&pipeline, p.arrived == p.issued && !p.broken);
    return p.placed                        ? gf_bypass_none
           : gf_is_capture_error(p.result) ? gf_bypass_capture
           : p.result || p.broken          ? gf_bypass_failed
                                           : gf_bypass_unreadable;
}
