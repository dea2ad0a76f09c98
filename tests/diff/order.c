/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracks which streams may be using which memory, and makes them wait for each other, so that a
 * random program has only one result. A set of streams is an unsigned with eight bits per world.
 */
#include "diff.h"

#include <sched.h>

unsigned stream_bit(const struct world *w, int stream)
{
    return 1u << (8 * w->number + (unsigned)stream);
}

int any_stream(struct thread *t)
{
    return (int)any(t, STREAMS);
}

/*
 * Returns a stream's handle. A default stream has its own handle, and NULL also means it in one
 * family of entry points.
 */
CUstream stream_handle(struct thread *t, int stream, bool *ret_thread_entry)
{
    *ret_thread_entry = chance(t, 50);
    if (stream == LEGACY)
        return *ret_thread_entry || chance(t, 50) ? CU_STREAM_LEGACY : NULL;
    if (stream == OWN)
        return *ret_thread_entry && chance(t, 50) ? NULL : CU_STREAM_PER_THREAD;
    return t->now->stream[stream].handle;
}

/* Returns a handle that means the stream in every entry point. */
static CUstream named(const struct world *w, int stream)
{
    return stream == LEGACY ? CU_STREAM_LEGACY
           : stream == OWN  ? CU_STREAM_PER_THREAD
                            : w->stream[stream].handle;
}

static CUresult wait_context(struct thread *t)
{
    quiet_enter();
    CUresult result = CALL(t, cuCtxSynchronize);
    quiet_leave();
    return result;
}

/* Makes the context of another world current for a moment. */
static void wait_world(struct thread *t, struct world *w, int stream)
{
    if (w != t->now)
        MUST(t, cuCtxSetCurrent, w->context);
    must(t, stream == LOST ? wait_context(t) : CALL(t, cuStreamSynchronize, named(w, stream)),
         "wait");
    if (w != t->now)
        MUST(t, cuCtxSetCurrent, t->now->context);
}

void settle(struct thread *t, unsigned busy)
{
    for (unsigned world = 0; world < WORLDS; world++)
        for (int stream = 0; stream < 8; stream++)
            if (busy & stream_bit(&t->world[world], stream))
                wait_world(t, &t->world[world], stream);
}

/* Returns whether one stream waits for the other without an event. */
static bool implied(const struct world *w, int one, int other)
{
    return (one == LEGACY && w->stream[other].blocking) ||
           (other == LEGACY && w->stream[one].blocking);
}

static void wait_by_event(struct thread *t, int stream, int for_stream)
{
    MUST(t, cuEventRecord, t->now->event, named(t->now, for_stream));
    MUST(t, cuStreamWaitEvent, named(t->now, stream), t->now->event, 0);
}

void order(struct thread *t, int stream, unsigned *busy)
{
    const unsigned mine = 0xffu << (8 * t->now->number);
    if (t->orders < sizeof t->ordered / sizeof t->ordered[0]) {
        t->ordered[t->orders].busy = busy;
        t->ordered[t->orders++].before = *busy;
    }
    settle(t, *busy & ~mine);
    for (int other = 0; other < STREAMS; other++) {
        if (other == stream || !(*busy & stream_bit(t->now, other)) ||
            implied(t->now, stream, other))
            continue;
        if (chance(t, 70))
            wait_by_event(t, stream, other);
        else
            wait_for(t, other);
    }
    if (*busy & stream_bit(t->now, LOST))
        settle(t, stream_bit(t->now, LOST));
    *busy = stream_bit(t->now, stream);
}

void refused(struct thread *t)
{
    while (t->orders) {
        t->orders--;
        *t->ordered[t->orders].busy |= t->ordered[t->orders].before;
    }
}

/* Records that these streams no longer use any memory. */
static void is_done(struct thread *t, unsigned streams)
{
    for (struct host *h = t->host; h < t->host + HOSTS; h++)
        h->busy &= ~streams;
    for (struct device *d = t->now->device; d < t->now->device + DEVICES; d++)
        d->busy &= ~streams;
}

void wait_for(struct thread *t, int stream)
{
    MUST(t, cuStreamSynchronize, named(t->now, stream));
    is_done(t, stream_bit(t->now, stream));
}

void act_sync(struct thread *t)
{
    int stream = any_stream(t);
    CUresult result;
    unsigned how = (unsigned)any(t, 6);
    if (how == 0) {
        result = wait_context(t);
        if (!result)
            is_done(t, 0xffu << (8 * t->now->number));
    } else if (how <= 2) {
        result = CALL(t, cuEventRecord, t->now->event, named(t->now, stream));
        say(t, "record %d -> %d", stream, (int)result);
        result = CALL(t, cuEventSynchronize, t->now->event);
        if (!result)
            is_done(t, stream_bit(t->now, stream));
    } else {
        result = CALL(t, cuStreamSynchronize, named(t->now, stream));
        if (!result)
            is_done(t, stream_bit(t->now, stream));
    }
    say(t, "sync how %u stream %d -> %d", how, stream, (int)result);
}

/*
 * Queries until the answer is no longer "not ready", and prints only the final answer, because "not
 * ready" depends on time.
 */
void act_query(struct thread *t)
{
    int stream = any_stream(t);
    bool event = chance(t, 50);
    CUresult result;
    if (event)
        MUST(t, cuEventRecord, t->now->event, named(t->now, stream));
    t->calls++;
    do
        result = event ? cu.cuEventQuery(t->now->event) : cu.cuStreamQuery(named(t->now, stream));
    while (result == CUDA_ERROR_NOT_READY && sched_yield() == 0);
    if (!result)
        is_done(t, stream_bit(t->now, stream));
    say(t, "query %s stream %d -> %d", event ? "event" : "all", stream, (int)result);
}

void act_kernel(struct thread *t)
{
    int stream = any_stream(t);
    uint64_t ns = 1000 * any(t, 300);
    void *params[] = {&ns};
    CUresult result =
        stream == OWN && chance(t, 50)
            ? CALL(t, cuLaunchKernel_ptsz, t->now->spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL)
            : CALL(t, cuLaunchKernel, t->now->spin, 1, 1, 1, 1, 1, 1, 0, named(t->now, stream),
                   params, NULL);
    say(t, "kernel stream %d -> %d", stream, (int)result);
}
