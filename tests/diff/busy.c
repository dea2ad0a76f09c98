/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies on a stream that is blocked: it waits for a value that the host writes, or for a host
 * function.
 */
#include "diff.h"

#include <stdlib.h>
#include <time.h>

/* The largest asynchronous pageable copy that returns at once with every driver. */
#define SMALL ((size_t)1 << 20)

static CUstream handle_of(struct thread *t, int stream)
{
    return stream == OWN ? CU_STREAM_PER_THREAD : t->now->stream[stream].handle;
}

/* A small asynchronous copy from pageable memory, which the program overwrites at once. */
static void copy_behind(struct thread *t, int stream, struct device *d, struct host *h)
{
    size_t most = d->size < h->size ? d->size : h->size;
    struct ends e = {.h = h, .d = d, .size = any_size(t, most < SMALL ? most : SMALL)};
    e.host_at = any_offset(t, h->size - e.size);
    e.device_at = any_offset(t, d->size - e.size);
    CUresult result = CALL(t, cuMemcpyHtoDAsync_v2, d->at + e.device_at, h->at + e.host_at, e.size,
                           handle_of(t, stream));
    say_ends(t, "h2d-async behind", &e, stream, result);
    if (h->writable)
        fill(t, h->at + e.host_at, e.size);
}

static struct host *idle_pageable(struct thread *t)
{
    for (int tries = 0; tries < 50; tries++) {
        struct host *h = any_host(t, false);
        if (host_pageable(h) && !h->busy)
            return h;
    }
    return NULL;
}

/*
 * The stream waits for a value. Meanwhile no later work may be reported as done, and each call that
 * returns at once without the library must return. If other threads exist, one of them may wait for
 * this stream inside the driver, and thus block this thread.
 */
void act_gate(struct thread *t)
{
    static _Thread_local void *value;
    static _Thread_local unsigned made; /* the value of `renewed` when these were made */
    int stream = 3 + (int)any(t, 2);    /* other than the legacy stream */
    CUstream s = handle_of(t, stream);
    struct device *d = any_device(t);
    struct host *h = idle_pageable(t);
    if (options.threads > 1 || t->now->number || !h)
        return;
    if (!value || made != t->renewed)
        MUST(t, cuMemHostAlloc, &value, 64, 0);
    made = t->renewed;
    settle(t, d->busy);
    d->busy = stream_bit(t->now, stream);
    __atomic_store_n((uint32_t *)value, 0, __ATOMIC_SEQ_CST);
    CUresult result =
        CALL(t, cuStreamWaitValue32_v2, s, (uintptr_t)value, 1, CU_STREAM_WAIT_VALUE_GEQ);
    say(t, "gate stream %d -> %d", stream, (int)result);
    for (unsigned copies = 1 + (unsigned)any(t, 6); copies; copies--)
        copy_behind(t, stream, d, h);
    result = CALL(t, cuStreamQuery, s);
    say(t, "gate query -> %d", (int)result);
    must(t, CALL(t, cuEventRecord, t->now->event, s), "record");
    result = CALL(t, cuEventQuery, t->now->event);
    say(t, "gate event -> %d", (int)result);
    __atomic_store_n((uint32_t *)value, 1, __ATOMIC_SEQ_CST);
    if (chance(t, 80))
        read_back(t, d, 0, d->size);
}

struct late_fill {
    unsigned char *at;
    size_t size;
    uint64_t seed;
    unsigned microseconds;
};

static void CUDA_CB fill_late(void *data)
{
    struct late_fill *late = data;
    struct thread own = {.state = late->seed};
    struct timespec wait = {0, late->microseconds * 1000L};
    nanosleep(&wait, NULL);
    fill(&own, late->at, late->size);
    free(late);
}

static void CUDA_CB call_late(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    if (status == CUDA_SUCCESS)
        fill_late(data);
}

static CUresult launch_late(struct thread *t, int stream, struct late_fill *late)
{
    CUstream s = stream ? t->now->stream[stream].handle : NULL;
    return chance(t, 40) ? CALL(t, cuStreamAddCallback, s, call_late, late, 0)
                         : CALL(t, cuLaunchHostFunc, s, fill_late, late);
}

/*
 * A host function or callback writes memory that a later copy on the legacy stream reads or
 * overwrites. So a synchronous copy must wait for its stream before it begins.
 */
void act_host_function(struct thread *t)
{
    struct ends e;
    bool to_host = chance(t, 50);
    int stream = chance(t, 50) ? LEGACY : 2; /* the legacy stream waits for stream 2 */
    any_ends(t, true, &e);
    if (e.h->kind == kind_managed)
        return;
    host_settle(t, e.h);
    order(t, stream, &e.d->busy);
    struct late_fill *late = malloc(sizeof *late);
    *late = (struct late_fill){e.h->at + e.host_at, e.size, any(t, ~0ull), (unsigned)any(t, 1500)};
    CUresult result = launch_late(t, stream, late);
    say(t, "host function stream %d -> %d", stream, (int)result);
    must(t, result, "host function");
    CUdeviceptr d = e.d->at + e.device_at;
    unsigned char *h = e.h->at + e.host_at;
    if (to_host)
        result = CALL(t, cuMemcpyDtoH_v2, h, d, e.size);
    else
        result = CALL(t, cuMemcpyHtoD_v2, d, h, e.size);
    say_ends(t, to_host ? "d2h behind function" : "h2d behind function", &e, LEGACY, result);
    e.d->busy |= stream_bit(t->now, LEGACY);
    settle(t, stream_bit(t->now, stream));
    say(t, "host has %016lx", (unsigned long)host_hash(e.h, h, e.size));
    if (!to_host)
        read_back(t, e.d, e.device_at, e.size);
}
