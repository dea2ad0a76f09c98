/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures. An action captures work, and in between makes calls that the capture allows or that
 * invalidate it. It then launches the graph and checks the bytes. Each capture has its own buffers.
 */
#include "diff.h"

#include <stdlib.h>

#define SIZE ((size_t)3 << 20)

struct set {
    unsigned char *pageable, *pinned;
    CUdeviceptr one, two;
};

static struct set *set_of(struct thread *t)
{
    static _Thread_local struct set set;
    static _Thread_local unsigned made; /* the value of `renewed` when these were made */
    if (!set.pageable || made != t->renewed) {
        void *pinned;
        free(set.pageable);
        made = t->renewed;
        set.pageable = malloc(SIZE);
        MUST(t, cuMemHostAlloc, &pinned, SIZE, 0);
        MUST(t, cuMemAlloc_v2, &set.one, SIZE);
        MUST(t, cuMemAlloc_v2, &set.two, SIZE);
        set.pinned = pinned;
    }
    return &set;
}

static void fill_set(struct thread *t, struct set *set)
{
    fill(t, set->pageable, SIZE);
    fill(t, set->pinned, SIZE);
}

/* Work for the graph, on the capturing stream. */
static void captured_work(struct thread *t, struct set *set, CUstream s)
{
    CUresult result;
    uint64_t ns = 20000;
    void *params[] = {&ns};
    size_t size = any_size(t, SIZE / 2);
    unsigned what = (unsigned)any(t, 7);
    switch (what) {
    case 0:
        result = CALL(t, cuMemcpyHtoDAsync_v2, set->one, set->pageable, size, s);
        break;
    case 1:
        result = CALL(t, cuMemcpyHtoDAsync_v2, set->two, set->pinned, size, s);
        break;
    case 2:
        result = CALL(t, cuMemcpyAsync, set->one + SIZE / 2, (uintptr_t)set->pageable, size, s);
        break;
    case 3:
        result = CALL(t, cuMemcpyDtoDAsync_v2, set->two + SIZE / 2, set->one, size, s);
        break;
    case 4:
        result = CALL(t, cuMemcpyDtoHAsync_v2, set->pinned + SIZE / 2, set->one, size, s);
        break;
    case 5:
        result = CALL(t, cuMemsetD8Async, set->one + 1, (unsigned char)any(t, 256), size, s);
        break;
    default:
        result = CALL(t, cuLaunchKernel, t->now->spin, 1, 1, 1, 1, 1, 1, 0, s, params, NULL);
    }
    say(t, "captured %u size %zu -> %d", what, size, (int)result);
}

/* Calls during a capture, some of which the capture forbids. */
static void beside(struct thread *t, CUstream s, bool kill)
{
    CUstreamCaptureStatus status = 9;
    void *pinned = NULL;
    CUdeviceptr device = 0;
    CUresult result;
    unsigned what = (unsigned)any(t, kill ? 9 : 3);
    switch (what) {
    case 0:
        result = CALL(t, cuStreamIsCapturing, s, &status);
        break;
    case 1:
        result = CALL(t, cuStreamIsCapturing, CU_STREAM_PER_THREAD, &status);
        break;
    case 2:
        result = CALL(t, cuStreamIsCapturing, CU_STREAM_LEGACY, &status);
        break;
    case 3:
        result = CALL(t, cuMemHostAlloc, &pinned, any_size(t, options.largest), 0);
        if (!result)
            MUST(t, cuMemFreeHost, pinned);
        break;
    case 4:
        result = CALL(t, cuMemFreeHost, NULL);
        break;
    case 5:
        result = CALL(t, cuStreamSynchronize, s);
        break;
    case 6:
        result = CALL(t, cuMemAlloc_v2, &device, 4096);
        if (!result)
            MUST(t, cuMemFree_v2, device);
        break;
    case 7: {
        struct host *h = &t->host[any(t, HOSTS)];
        if (h->kind != kind_pinned || h->busy)
            return;
        result = CALL(t, cuMemFreeHost, h->at);
        if (!result)
            h->kind = kind_none;
        break;
    }
    default:
        result = CALL(t, cuStreamQuery, s);
    }
    say(t, "beside %u -> %d status %d", what, (int)result, (int)status);
}

/* A copy on another stream, or on the legacy stream, during the capture. */
static void copy_beside(struct thread *t, CUstream s)
{
    struct host *h = any_host(t, false);
    struct device *d = any_device(t);
    int stream = chance(t, 50) ? LEGACY : 3;
    if (!host_pageable(h) || h->busy || t->now->stream[stream].handle == s ||
        d->busy & ~stream_bit(t->now, stream))
        return;
    struct ends e = {.h = h, .d = d};
    e.size = any_size(t, h->size < d->size ? h->size : d->size);
    CUresult result = stream == LEGACY ? CALL(t, cuMemcpyHtoD_v2, d->at, h->at, e.size)
                                       : CALL(t, cuMemcpyHtoDAsync_v2, d->at, h->at, e.size,
                                              t->now->stream[stream].handle);
    say_ends(t, "h2d beside capture", &e, stream, result);
    if (!result) {
        d->busy = stream_bit(t->now, stream);
        if (h->writable)
            fill(t, h->at, e.size);
    }
}

static void look(struct thread *t, struct set *set)
{
    CUdeviceptr at[] = {set->one, set->two};
    for (int i = 0; i < 2; i++) {
        unsigned char *back = set->pageable;
        CUresult result = CALL(t, cuMemcpyDtoH_v2, back, at[i], SIZE);
        say(t, "graph left -> %d %016lx", (int)result, (unsigned long)hash(back, SIZE));
    }
    say(t, "graph left %016lx", (unsigned long)hash(set->pinned, SIZE));
}

static void launch(struct thread *t, struct set *set, CUgraph graph, CUstream s)
{
    CUgraphExec exec = NULL;
    CUresult result = CALL(t, cuGraphInstantiateWithFlags, &exec, graph, 0);
    say(t, "instantiate -> %d", (int)result);
    for (unsigned times = 1 + (unsigned)any(t, 3); times && !result; times--) {
        fill_set(t, set);
        MUST(t, cuGraphLaunch, exec, s);
        MUST(t, cuStreamSynchronize, s);
        look(t, set);
    }
    if (!result)
        MUST(t, cuGraphExecDestroy, exec);
    MUST(t, cuGraphDestroy, graph);
}

static CUstream stream_for(struct thread *t, CUstreamCaptureMode *ret_mode)
{
    /* a GLOBAL capture would make calls of other threads fail at random */
    if (options.threads > 1) {
        *ret_mode =
            chance(t, 50) ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL : CU_STREAM_CAPTURE_MODE_RELAXED;
        return t->now->stream[4].handle;
    }
    *ret_mode = (CUstreamCaptureMode)any(t, 3);
    unsigned which = (unsigned)any(t, 4);
    return which == 0   ? CU_STREAM_PER_THREAD
           : which == 1 ? t->now->stream[2].handle
                        : t->now->stream[4].handle;
}

void act_capture(struct thread *t)
{
    if (t->now->number || !options.captures)
        return;
    struct set *set = set_of(t);
    CUstreamCaptureMode mode, exchanged = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUstream s = stream_for(t, &mode);
    CUgraph graph = NULL;
    bool relax = chance(t, 20), kill = chance(t, 30);
    fill_set(t, set);
    MUST(t, cuMemsetD8_v2, set->one, 1, SIZE);
    MUST(t, cuMemsetD8_v2, set->two, 2, SIZE);
    captures_enter();
    MUST(t, cuStreamSynchronize, CU_STREAM_LEGACY);
    if (relax)
        MUST(t, cuThreadExchangeStreamCaptureMode, &exchanged);
    CUresult result = CALL(t, cuStreamBeginCapture_v2, s, mode);
    say(t, "begin mode %d -> %d", (int)mode, (int)result);
    for (unsigned n = (unsigned)any(t, 8); n && !result; n--) {
        if (chance(t, 60))
            captured_work(t, set, s);
        else if (chance(t, 60))
            copy_beside(t, s);
        else
            beside(t, s, kill);
    }
    result = CALL(t, cuStreamEndCapture, s, &graph);
    say(t, "end -> %d graph %s", (int)result, graph ? "made" : "none");
    if (relax)
        MUST(t, cuThreadExchangeStreamCaptureMode, &exchanged);
    if (!result)
        launch(t, set, graph, s);
    captures_leave();
}
