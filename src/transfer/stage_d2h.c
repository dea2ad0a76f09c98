/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device to pageable memory, synchronous or not: the call returns when the last byte is in place.
 * DMAs run ahead into the ring; helpers and the caller carry on from there.
 */
#include "transfer/flow.h"

#include "transfer/plant.h"
#include "transfer/setup.h"

struct progress {
    uint64_t issued; /* chunks whose DMA stands on the stream */
    uint64_t landed; /* chunks that are in the ring */
    uint64_t placed; /* chunks that are where they shall be */
    CUresult result;
    bool broken; /* the driver does the rest */
};

static void send(const struct gf_staging *stage, struct gf_flow *flow, struct progress *p)
{
    p->result = gf_setup.cuda->cuMemcpyDtoHAsync_v2(
        flow->slot[gf_flow_slot(flow, p->issued)]->at, stage->call->src + p->issued * flow->chunk,
        gf_flow_length(flow, p->issued), stage->call->stream);
    if (p->result == CUDA_SUCCESS)
        p->broken = !gf_flow_mark(flow, p->issued++, stage->call->stream);
}

static bool land(struct gf_flow *flow, struct progress *p, bool wait)
{
    if (p->landed == p->issued)
        return false;
    if (!GF_PLANTED(takes_unarrived) && !gf_flow_has_ended(flow, p->landed, wait, &p->broken))
        return false;
    if (!gf_flow_allow(flow, p->landed))
        return false;
    p->landed++;
    return true;
}

/* One step without waiting; false: there was nothing to do. */
static bool step(const struct gf_staging *stage, struct gf_flow *flow, struct progress *p)
{
    if (p->issued < flow->chunks && p->issued - p->placed < flow->slots) {
        send(stage, flow, p);
        return true;
    }
    if (land(flow, p, false))
        return true;
    if (p->broken)
        return false;
    if (p->placed < p->landed &&
        (GF_PLANTED(returns_unplaced) || gf_flow_is_copied(flow, p->placed))) {
        p->placed++;
        return true;
    }
    return gf_pool_help(&flow->job);
}

static void run(const struct gf_staging *stage, struct gf_flow *flow, struct progress *p)
{
    while (p->placed < gf_flow_end(flow) && p->result == CUDA_SUCCESS && !p->broken) {
        const uint32_t seen = gf_pool_bell(&flow->job);
        if (step(stage, flow, p) || p->broken)
            continue;
        if (p->placed < p->landed)
            gf_pool_wait(&flow->job, seen); /* helpers have the chunk's last pieces */
        else
            land(flow, p, true);
    }
}

void gf_stage_d2h(const struct gf_staging *stage, struct gf_staged *ret)
{
    struct gf_flow flow;
    struct progress p = {.result = CUDA_SUCCESS};

    *ret = (struct gf_staged){.forward = true, .why = gf_forward_failed};
    if (!GF_PLANTED(takes_ring_first) && gf_flow_await(stage, NULL) != CUDA_SUCCESS)
        return;
    ret->why = gf_forward_full;
    if (!gf_flow_cut(&flow, stage, true))
        return;
    gf_flow_open(&flow, 0);
    run(stage, &flow, &p);
    gf_pool_close(flow.pool, &flow.job);
    /* The host's memory is as it was before the first chunk is in it. */
    *ret = (struct gf_staged){.forward = p.placed == 0,
                              .why = p.result || p.broken ? gf_forward_failed : gf_forward_unreadable,
                              .result = p.result,
                              .done = gf_min(p.placed * flow.chunk, flow.bytes)};
    gf_flow_release(&flow, p.landed == p.issued && !p.broken);
}
