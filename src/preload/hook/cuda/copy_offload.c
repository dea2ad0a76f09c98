/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/cuda/copy_offload.h"

#include "base/clock.h"
#include "preload/hook/attach/engine_call.h"

bool gf_copy_offload_to_engine(struct gf_copy_offload *offload)
{
    struct gf_engine_call call;
    const struct gf_transfer_ops *transfer = gf_engine_call_transfer(&call);
    if (!transfer)
        return false;
    const bool done = transfer->copy(offload->call, &offload->result, &offload->refusal);
    if (!done)
        offload->since = gf_now_ns();
    gf_engine_call_end(&call);
    return done;
}

void gf_copy_offload_declined(const struct gf_copy_offload *offload)
{
    struct gf_engine_call call;
    const uint64_t ns = gf_now_ns() - offload->since;
    const struct gf_transfer_ops *transfer = gf_engine_call_transfer(&call);
    if (!transfer)
        return;
    if (transfer->copy_declined)
        transfer->copy_declined(offload->call, &offload->refusal, ns);
    gf_engine_call_end(&call);
}
