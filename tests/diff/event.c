/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of all kinds: with and without timing, recorded or not, waited for by streams and by the
 * host.
 */
#include "diff.h"

static CUstream handle_of(struct thread *t, int stream)
{
    return stream == LEGACY ? CU_STREAM_LEGACY
           : stream == OWN  ? CU_STREAM_PER_THREAD
                            : t->now->stream[stream].handle;
}

static CUresult record(struct thread *t, CUevent event, int stream)
{
    if (stream == OWN && chance(t, 50))
        return CALL(t, cuEventRecord_ptsz, event, NULL);
    return chance(t, 30) ? CALL(t, cuEventRecordWithFlags, event, handle_of(t, stream), 0)
                         : CALL(t, cuEventRecord, event, handle_of(t, stream));
}

/*
 * The elapsed time depends on the device. So the transcript contains only whether it is known and
 * whether it is negative.
 */
static void say_time(struct thread *t, const char *when, CUevent from, CUevent to)
{
    float ms = -1;
    CUresult result = CALL(t, cuEventElapsedTime, &ms, from, to);
    say(t, "time %s -> %d, %s", when, (int)result, ms >= 0 ? "some" : "none");
}

/* A copy between two events. When the second event has completed, the bytes have arrived. */
void act_event(struct thread *t)
{
    static const unsigned flags[] = {CU_EVENT_DEFAULT, CU_EVENT_BLOCKING_SYNC,
                                     CU_EVENT_DISABLE_TIMING};
    CUevent from, to;
    const int stream = any_stream(t), other = any_stream(t);
    const unsigned kind = (unsigned)any(t, 3);
    struct device *d = any_device(t);
    struct host *h = any_host(t, false);
    const size_t size = any_size(t, h->size < d->size ? h->size : d->size);
    if (!host_pageable(h) || h->busy)
        return;
    MUST(t, cuEventCreate, &from, flags[kind]);
    MUST(t, cuEventCreate, &to, flags[any(t, 3)]);
    say(t, "event %u never recorded -> %d", kind, (int)CALL(t, cuEventQuery, from));
    say_time(t, "of nothing", from, to);
    order(t, stream, &d->busy);
    CUresult result = record(t, from, stream);
    say(t, "event recorded stream %d -> %d", stream, (int)result);
    result = CALL(t, cuMemcpyHtoDAsync_v2, d->at, h->at, size, handle_of(t, stream));
    if (h->writable)
        fill(t, h->at, size);
    say(t, "h2d-async between events %s size %zu -> %d", kind_name(h->kind), size, (int)result);
    if (result)
        refused(t);
    must(t, record(t, to, stream), "record");
    if (chance(t, 50)) { /* another stream waits for the event, and then reads the bytes */
        MUST(t, cuStreamWaitEvent, handle_of(t, other), to, 0);
        d->busy |= stream_bit(t->now, other);
    }
    say(t, "event awaited -> %d", (int)CALL(t, cuEventSynchronize, to));
    result = CALL(t, cuEventQuery, from);
    say(t, "events -> %d %d", (int)result, (int)CALL(t, cuEventQuery, to));
    say_time(t, "of a copy", from, to);
    read_back(t, d, 0, size);
    MUST(t, cuEventDestroy_v2, from);
    MUST(t, cuEventDestroy_v2, to);
}
