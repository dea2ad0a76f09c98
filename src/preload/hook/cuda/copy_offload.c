/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/cuda/copy_offload.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "preload/hook/attach/engine_call.h"
#include "preload/trace/step_times.h"

/*
 * Number of large copies in progress, in the engine or in the driver. If a thread leaves the
 * driver's call by longjmp, the copy stays counted. The only effect is that more small copies are
 * offered to the engine.
 */
static _Atomic unsigned copies_now;

static void end_count(void)
{
    gf_sub_relaxed(&copies_now, 1);
}

static bool is_offered(size_t bytes, unsigned copies, bool linear)
{
    const struct gf_engine *engine = gf_engine();
    const struct gf_transfer_ops *transfer = engine ? engine->transfer : NULL;

    return transfer && (bytes >= transfer->copy_least ||
                        (linear && copies >= gf_load_relaxed(transfer->copy_sharers)));
}

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

bool gf_copy_offload_large(struct gf_copy_offload *offload, enum gf_hook hook, bool linear)
{
    const size_t bytes = offload->call->bytes;

    offload->counted = true;
    if (offload->call->way == gf_copy_h2d)
        gf_step_times_copy(gf_now_ns(), bytes);
    if (!is_offered(bytes, gf_add_relaxed(&copies_now, 1) + 1, linear))
        return false;
    gf_count_large(hook, bytes, linear);
    if (!linear || !gf_copy_offload_to_engine(offload))
        return false;
    end_count();
    return true;
}

static void tell_declined(const struct gf_copy_offload *offload)
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

void gf_copy_offload_ended(const struct gf_copy_offload *offload)
{
    if (offload->counted)
        end_count();
    if (offload->since)
        tell_declined(offload);
}
