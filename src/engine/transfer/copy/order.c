/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/copy/order.h"

#include "engine/transfer/context/context.h"
#include "engine/transfer/setup/mutation.h"

/*
 * Other threads were inside submissions since the copy began to wait for its stream. If one of them
 * was to this stream, and its work has not ended, the copy is not cut.
 */
static enum gf_bypass look_again(const struct gf_stage_request *request, bool waits,
                                 struct gf_stage_result *ret, enum gf_order *ret_order)
{
    bool idle = false;
    const enum gf_bypass reason = gf_pipeline_await_stream(
        request, waits ? GF_TUNE_IDLE_AGAIN_NS : GF_TUNE_IDLE_NS, &idle, ret);

    if (reason == gf_bypass_none && idle)
        return reason;
    gf_hold_end(request->hold);
    *ret_order = waits ? gf_order_whole : gf_order_queued;
    if (reason == gf_bypass_none && waits)
        gf_hold_note_shared(request->call->stream, request->context->handle);
    return reason;
}

static enum gf_bypass choose_order(const struct gf_stage_request *request, bool waits, bool shared,
                                   struct gf_stage_result *ret, enum gf_order *ret_order)
{
    const uint64_t ended = gf_hold_ended();
    const uint64_t limit_ns = !waits || GF_MUTATED(reads_early) ? GF_TUNE_IDLE_NS
                              : shared                          ? GF_TUNE_SHARED_WAIT_NS
                                                                : 0;
    bool idle = true;
    enum gf_bypass reason = gf_pipeline_await_stream(request, limit_ns, &idle, ret);

    GF_MUTATION_SLEEP(looks_once);
    *ret_order = idle || (waits && GF_MUTATED(reads_early)) ? gf_order_whole : gf_order_queued;
    if (reason != gf_bypass_none || *ret_order == gf_order_queued || shared ||
        !gf_hold_begin(request->call->stream, request->context->handle, request->hold))
        return reason;
    *ret_order = gf_order_cut;
    if (gf_hold_begun() != ended && !GF_MUTATED(looks_once))
        reason = look_again(request, waits, ret, ret_order);
    if (*ret_order == gf_order_cut)
        gf_hold_cut(request->hold);
    return reason;
}

enum gf_bypass gf_order_choose(const struct gf_stage_request *request, bool waits,
                               struct gf_stage_result *ret, enum gf_order *ret_order)
{
    const bool shared = gf_hold_is_shared(request->call->stream, request->context->handle);

    *ret_order = gf_order_cut;
    return request->hold->ticket ? gf_bypass_none
                                 : choose_order(request, waits, shared, ret, ret_order);
}

enum gf_bypass gf_order_insist(const struct gf_stage_request *request, struct gf_stage_result *ret,
                               enum gf_order *ret_order)
{
    return choose_order(request, true, false, ret, ret_order);
}
