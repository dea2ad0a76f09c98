/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts with their streams and device memory: the primary context, and one that the program
 * creates.
 */
#include "diff.h"

#include <string.h>

#define KERNELS                                                                                    \
    ".version 7.0\n.target sm_80\n.address_size 64\n"                                              \
    ".visible .entry spin(.param .u64 ns)\n{\n"                                                    \
    ".reg .u64 %a, %b, %n;\n.reg .pred %p;\n"                                                      \
    "ld.param.u64 %n, [ns];\nmov.u64 %a, %globaltimer;\n"                                          \
    "again:\nmov.u64 %b, %globaltimer;\nsub.u64 %b, %b, %a;\n"                                     \
    "setp.lt.u64 %p, %b, %n;\n@%p bra again;\nret;\n}\n"                                           \
    ".visible .entry trap()\n{\ntrap;\nret;\n}\n"

static void stream_make(struct thread *t, struct world *w, int i)
{
    static const unsigned flags[STREAMS] = {0, 0, 0, 1, 1, 0};
    struct stream *s = &w->stream[i];
    s->blocking = i == OWN || (i > OWN && !flags[i]);
    if (i < 2)
        return;
    must(t,
         i < 4 ? CALL(t, cuStreamCreate, &s->handle, flags[i])
               : CALL(t, cuStreamCreateWithPriority, &s->handle, flags[i], -(int)any(t, 6)),
         "cuStreamCreate");
}

void device_make(struct thread *t, struct device *d, size_t size)
{
    CUdeviceptr at;
    const bool pooled = chance(t, 20);
    if (chance(t, 50)) /* the next buffer begins where this one ends */
        size = (size + 511) & ~(size_t)511;
    if (pooled)
        MUST(t, cuMemAllocAsync, &at, size, CU_STREAM_LEGACY);
    else
        MUST(t, cuMemAlloc_v2, &at, size);
    *d = (struct device){at, size, stream_bit(t->now, LEGACY), pooled};
    MUST(t, cuMemsetD8_v2, at, (unsigned char)size, size);
}

void device_drop(struct thread *t, struct device *d)
{
    if (d->pooled)
        settle(t, d->busy);
    CUresult result = d->pooled ? CALL(t, cuMemFreeAsync, d->at, CU_STREAM_LEGACY)
                                /* cuMemFree waits for the streams that use the memory */
                                : CALL(t, cuMemFree_v2, d->at);
    say(t, "free device %zu -> %d", d->size, (int)result);
    must(t, result, "cuMemFree");
    memset(d, 0, sizeof *d);
}

struct device *any_device(struct thread *t)
{
    return &t->now->device[any(t, DEVICES)];
}

void world_make(struct thread *t, struct world *w, bool primary)
{
    CUmodule module;
    if (primary)
        MUST(t, cuDevicePrimaryCtxRetain, &w->context, 0);
    else
        MUST(t, cuCtxCreate_v2, &w->context, 0, options.devices > 1);
    MUST(t, cuCtxSetCurrent, w->context);
    t->now = w;
    for (int i = 0; i < STREAMS; i++)
        stream_make(t, w, i);
    MUST(t, cuEventCreate, &w->event, CU_EVENT_DISABLE_TIMING);
    MUST(t, cuModuleLoadData, &module, KERNELS);
    MUST(t, cuModuleGetFunction, &w->spin, module, "spin");
    MUST(t, cuModuleGetFunction, &w->trap, module, "trap");
    for (int i = 0; i < DEVICES; i++)
        device_make(t, &w->device[i], i ? any_room(t, options.largest) : options.largest);
    say(t, "world %u is there", w->number);
}

/* Ends a context. Its objects end with it, even if they are in use. */
void world_end(struct thread *t, struct world *w)
{
    if (chance(t, 50))
        settle(t, stream_bit(w, LOST));
    CUresult result = CALL(t, cuCtxDestroy_v2, w->context);
    say(t, "world %u ends -> %d", w->number, (int)result);
    host_forget(t, w);
    unsigned number = w->number;
    memset(w, 0, sizeof *w);
    w->number = number;
    t->now = &t->world[0];
    MUST(t, cuCtxSetCurrent, t->now->context);
}

/* Waits until the other world's streams no longer use pinned memory of this world. */
static void settle_others(struct thread *t)
{
    const unsigned mine = 0xffu << (8 * t->now->number);
    for (struct host *h = t->host; h < t->host + HOSTS; h++)
        if (h->kind != kind_none && h->world == t->now && !host_pageable(h)) {
            settle(t, h->busy & ~mine);
            h->busy &= mine;
        }
}

/*
 * Ends the primary context by its last release or by a reset, even if it is in use, and creates it
 * again. Memory that was pinned in it is freed.
 */
static void renew(struct thread *t)
{
    struct world *w = t->now;
    const bool reset = chance(t, 50);
    unsigned flags;
    int active = 1;
    settle_others(t);
    CUresult result = reset ? CALL(t, cuDevicePrimaryCtxReset_v2, 0) : CUDA_SUCCESS;
    for (int i = 0; i < 4 && !result && active; i++) {
        if (!reset || i)
            result = CALL(t, cuDevicePrimaryCtxRelease_v2, 0);
        MUST(t, cuDevicePrimaryCtxGetState, 0, &flags, &active);
    }
    say(t, "primary context %s -> %d, %s", reset ? "reset" : "released", (int)result,
        active ? "active" : "gone");
    host_forget(t, w);
    memset(w, 0, sizeof *w);
    t->renewed++;
    world_make(t, w, true);
}

/*
 * Retains and releases another reference, which changes nothing. Sometimes the release is that of
 * the last reference.
 */
void act_primary(struct thread *t)
{
    CUcontext again = NULL;
    unsigned flags = 9;
    int active = 9;
    CUresult result = CALL(t, cuDevicePrimaryCtxRetain, &again, 0);
    say(t, "retain -> %d, %s", (int)result, again == t->world[0].context ? "the same" : "another");
    result = CALL(t, cuDevicePrimaryCtxRelease_v2, 0);
    say(t, "release -> %d", (int)result);
    result = CALL(t, cuDevicePrimaryCtxGetState, 0, &flags, &active);
    say(t, "state -> %d flags %u active %d", (int)result, flags, active);
    if (options.threads == 1 && t->now->number == 0 && chance(t, 60))
        renew(t);
}

/*
 * Switches to the other world. It creates a context only rarely, because that takes long on a real
 * device.
 */
void world_switch(struct thread *t)
{
    struct world *other = &t->world[t->now == &t->world[0]];
    CUcontext popped = NULL;
    if (!other->context && chance(t, 30))
        world_make(t, other, false);
    else if (t->now->number && chance(t, 15))
        world_end(t, t->now);
    else if (!other->context)
        return;
    else if (chance(t, 50))
        MUST(t, cuCtxSetCurrent, other->context);
    else {
        MUST(t, cuCtxPopCurrent_v2, &popped);
        MUST(t, cuCtxPushCurrent_v2, other->context);
    }
    if (other->context && t->world[1].context)
        t->now = other;
    say(t, "in world %u", t->now->number);
}

/*
 * Destroys and creates streams. A destroyed stream's work continues, and only its context shows
 * when that work has ended.
 */
void streams_churn(struct thread *t)
{
    int i = 2 + (int)any(t, STREAMS - 2);
    const unsigned bit = stream_bit(t->now, i), lost = stream_bit(t->now, LOST);
    CUresult result = CALL(t, cuStreamDestroy_v2, t->now->stream[i].handle);
    say(t, "destroy stream %d -> %d", i, (int)result);
    stream_make(t, t->now, i);
    for (struct host *h = t->host; h < t->host + HOSTS; h++)
        h->busy = h->busy & bit ? (h->busy & ~bit) | lost : h->busy;
    for (struct device *d = t->now->device; d < t->now->device + DEVICES; d++)
        d->busy = d->busy & bit ? (d->busy & ~bit) | lost : d->busy;
}
