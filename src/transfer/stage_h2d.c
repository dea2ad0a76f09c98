/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pageable memory to a device. The helpers fill the ring, the caller issues the DMAs in order, and
 * copies itself whenever it has nothing else to do.
 */
#include "transfer/flow.h"

#include "transfer/plant.h"
#include "transfer/setup.h"

static CUresult issue(const struct gf_staging *stage, const struct gf_flow *flow, uint64_t chunk)
{
    const uint64_t to = GF_PLANTED(swaps_chunks) && chunk < 2 && flow->chunks > 2 ? 1 - chunk : chunk;
    return gf_setup.cuda->cuMemcpyHtoDAsync_v2(
        stage->call->dst + to * flow->chunk, flow->slot[gf_flow_slot(flow, chunk)]->at,
        gf_flow_length(flow, chunk), GF_PLANTED(loses_the_stream) ? NULL : stage->call->stream);
}

static void forward(struct gf_staged *ret, enum gf_forward why)
{
    *ret = (struct gf_staged){.forward = true, .why = why};
}

/*
 * The stream is busy: everything is read now, and one operation stands on the stream in the end, so
 * that nobody who launches there meanwhile sees half a copy. False: there is no room for it.
 */
static bool put_aside(const struct gf_staging *stage, struct gf_staged *ret)
{
    struct gf_flow flow;

    if (!gf_flow_whole(&flow, stage))
        return false;
    if (!gf_flow_read_whole(&flow)) {
        forward(ret, gf_forward_unreadable);
    } else if (issue(stage, &flow, 0) != CUDA_SUCCESS) {
        forward(ret, gf_forward_failed); /* the driver says itself why */
    } else {
        gf_flow_mark(&flow, 0, stage->call->stream);
        *ret = (struct gf_staged){.result = CUDA_SUCCESS, .done = stage->call->bytes};
    }
    gf_flow_release(&flow, false);
    return true;
}

/* Where a copy in chunks stands. */
struct progress {
    uint64_t opened; /* chunks whose pieces may be copied */
    uint64_t issued; /* chunks whose DMA stands on the stream */
    CUresult result;
    bool broken; /* no event tells any more when a slot is free: the driver does the rest */
};

static void send(const struct gf_staging *stage, struct gf_flow *flow, struct progress *p)
{
    p->result = issue(stage, flow, p->issued);
    if (p->result == CUDA_SUCCESS)
        p->broken = !gf_flow_mark(flow, p->issued++, stage->call->stream);
}

/* The slot of the next chunk, if its DMA of before has ended; or, to wait, when it has. */
static bool open_next(struct gf_flow *flow, struct progress *p, bool wait)
{
    if (p->opened >= gf_flow_end(flow) || p->opened - p->issued >= flow->slots)
        return false;
    if (!GF_PLANTED(reuses_slots_early) && !gf_flow_has_ended(flow, p->opened, wait, &p->broken))
        return false;
    if (!gf_flow_allow(flow, p->opened))
        return false;
    p->opened++;
    return true;
}

static void run(const struct gf_staging *stage, struct gf_flow *flow, struct progress *p)
{
    while (p->issued < gf_flow_end(flow) && p->result == CUDA_SUCCESS && !p->broken) {
        const uint32_t seen = gf_pool_bell(&flow->job);
        if (p->issued < p->opened && (GF_PLANTED(sends_unread) || gf_flow_is_copied(flow, p->issued)))
            send(stage, flow, p);
        else if (!open_next(flow, p, false) && !p->broken &&
                 (GF_PLANTED(needs_helpers) || !gf_pool_help(&flow->job))) {
            if (p->issued < p->opened)
                gf_pool_wait(&flow->job, seen); /* helpers have the chunk's last pieces */
            else
                open_next(flow, p, true);
        }
    }
}

/* A synchronous call returns when the data has arrived, whatever became of our events. */
static bool arrive(const struct gf_staging *stage, struct gf_flow *flow, struct progress *p)
{
    if (GF_PLANTED(returns_early))
        return true;
    if (!stage->call->async && p->issued && !p->broken && p->result == CUDA_SUCCESS &&
        gf_flow_has_ended(flow, p->issued - 1, true, &p->broken))
        return true;
    if (!stage->call->async && p->result == CUDA_SUCCESS)
        p->result = gf_setup.cuda->cuStreamSynchronize(stage->call->stream);
    return false;
}

static void in_chunks(const struct gf_staging *stage, struct gf_staged *ret)
{
    struct gf_flow flow;
    struct progress p = {.result = CUDA_SUCCESS};

    if (!gf_flow_cut(&flow, stage, false)) {
        forward(ret, gf_forward_full);
        return;
    }
    p.opened = gf_flow_open(&flow, gf_min(flow.chunks, (uint64_t)flow.slots));
    run(stage, &flow, &p);
    gf_pool_close(flow.pool, &flow.job);
    *ret = (struct gf_staged){.forward = p.issued == 0,
                              .why = p.result || p.broken ? gf_forward_failed : gf_forward_unreadable,
                              .done = gf_min(p.issued * flow.chunk, flow.bytes)};
    const bool idle = !ret->forward && ret->done == flow.bytes && arrive(stage, &flow, &p);
    ret->result = p.result;
    gf_flow_release(&flow, idle);
}

void gf_stage_h2d(const struct gf_staging *stage, struct gf_staged *ret)
{
    bool idle = false;
    bool *const look = stage->call->async || GF_PLANTED(reads_early) ? &idle : NULL; /* a synchronous one reads behind it all */

    if (gf_flow_await(stage, look) != CUDA_SUCCESS) {
        forward(ret, gf_forward_failed);
        return;
    }
    if (stage->call->async && !idle && !GF_PLANTED(sends_many)) {
        if (put_aside(stage, ret))
            return;
        /* The driver would not wait: who is to let the stream go on may be this very thread. */
        if (stage->call->bytes <= GF_TUNE_PUT_ASIDE) {
            gf_ring_want_more(stage->ring); /* memory for any number of them would gain little */
            forward(ret, gf_forward_full);
            return;
        }
        gf_ring_want(stage->ring, stage->call->bytes);
        gf_stats_stream_wait();
        if (gf_flow_await(stage, NULL) != CUDA_SUCCESS) {
            forward(ret, gf_forward_failed);
            return;
        }
    }
    in_chunks(stage, ret);
}
