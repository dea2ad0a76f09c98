/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/copy_offload.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "preload/trace/copy_waits.h"
#include "preload/trace/step_times.h"

#include <sys/resource.h>

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

uint64_t gf_copy_offload_submitted(void)
{
    return gf_submissions_on()
               ? gf_load_relaxed(&gf_submissions.submitters[gf_counters_mine() - 1].begun)
               : 0;
}

/* Returns how many page faults of the calling thread waited for a file or for swap space. */
static uint64_t count_major_faults(void)
{
    struct rusage usage = {0};
    gf_keep_errno();

    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_majflt;
}

/*
 * Unless the engine knows the stream's state, queries the stream, if the budget of queries permits.
 * A stream of unknown state does not count as busy.
 */
static void find_behind(struct gf_copy_offload *offload)
{
    struct gf_stall_mark mark = {.start_ns = offload->since};

    offload->behind = offload->refusal.is_queued && gf_copy_waits_wanted();
    if (offload->behind || offload->refusal.stream_was_idle || !offload->wait.pageable ||
        !gf_copy_waits_wanted() || !gf_stall_should_query(&mark, gf_timed_driver_copy))
        return;
    offload->behind = gf_stream_is_busy(offload->call->stream);
    gf_stall_query_done(&mark, false);
    offload->since = gf_now_ns();
}

static void note_wait(struct gf_copy_offload *offload, bool done)
{
    const struct gf_copy_call *call = offload->call;
    const struct gf_copy_wait *wait = &offload->wait;

    gf_copy_waits_add(wait->to_device, call->bytes, wait->ns);
    if (!done)
        find_behind(offload);
    else if (wait->queued)
        gf_copy_waits_queued((uintptr_t)call->stream, call->bytes, gf_copy_offload_submitted());
}

bool gf_copy_offload_to_engine(struct gf_copy_offload *offload)
{
    struct gf_engine_call call;
    const struct gf_transfer_ops *transfer = gf_engine_call_transfer(&call);
    if (!transfer)
        return false;
    const bool done =
        transfer->copy(offload->call, &offload->result, &offload->refusal, &offload->wait);
    if (!done)
        offload->since = gf_now_ns();
    gf_engine_call_end(&call);
    note_wait(offload, done);
    if (offload->behind)
        offload->major_faults = count_major_faults();
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

/*
 * Whether the driver's call only waited and copied. The duration of a copy that reads a file tells
 * nothing about a wait.
 */
static bool has_only_waited(const struct gf_copy_offload *offload)
{
    return offload->behind && !offload->refusal.readahead &&
           count_major_faults() == offload->major_faults;
}

static void tell_declined(const struct gf_copy_offload *offload)
{
    const uint64_t ns = gf_now_ns() - offload->since, bytes = offload->call->bytes;

    /* Even a slow copy makes a byte per nanosecond, so the rest of the duration was a wait. */
    if (ns > bytes && has_only_waited(offload))
        gf_copy_waits_add(offload->wait.to_device, bytes, ns - bytes);
    GF_WITH_TRANSFER(if (transfer->copy_declined)
                         transfer->copy_declined(offload->call, &offload->refusal, ns));
}

void gf_copy_offload_ended(const struct gf_copy_offload *offload)
{
    if (offload->counted)
        end_count();
    if (offload->since)
        tell_declined(offload);
}
