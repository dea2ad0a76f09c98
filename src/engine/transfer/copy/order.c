/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/copy/order.h"

#include "engine/transfer/context.h"
#include "engine/transfer/mutation.h"

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
    if (!waits || !GF_MUTATED(reads_early))
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

static enum gf_bypass choose_order(const struct gf_stage_request *request, bool waits, bool shared,
                                   struct gf_stage_result *ret, enum gf_order *ret_order)
{
    const bool early = waits && GF_MUTATED(reads_early);
    bool idle = true;

    *ret_order = gf_order_queued;
    if (waits && shared)
        return gf_bypass_shared;
    enum gf_bypass reason =
        gf_pipeline_await_stream(request, waits && !early ? 0 : GF_TUNE_IDLE_NS, &idle, ret);
    if (reason == gf_bypass_none && (idle || early) && !shared)
        reason = hold_idle(request, waits, ret, ret_order);
    return reason == gf_bypass_none && waits && *ret_order != gf_order_cut ? gf_bypass_shared
                                                                           : reason;
}

enum gf_bypass gf_order_choose(const struct gf_stage_request *request, bool waits,
                               struct gf_stage_result *ret, enum gf_order *ret_order)
{
    const bool shared = gf_hold_is_shared(request->call->stream, request->context->handle);

    *ret_order = gf_order_cut;
    return request->hold->ticket ? gf_bypass_none
                                 : choose_order(request, waits, shared, ret, ret_order);
}

enum gf_bypass gf_order_insist(const struct gf_stage_request *request, struct gf_stage_result *ret)
{
    enum gf_order order;
    return choose_order(request, true, false, ret, &order);
}
