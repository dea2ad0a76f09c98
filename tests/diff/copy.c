/* SPDX-License-Identifier: Apache-2.0 */
/* Linear copies by every entry point, fills, and checks of the bytes that must have arrived. */
#include "diff.h"

bool any_ends(struct thread *t, bool to_host, struct ends *ret)
{
    ret->h = any_host(t, to_host);
    ret->d = any_device(t);
    size_t most = ret->h->size < ret->d->size ? ret->h->size : ret->d->size;
    ret->size = chance(t, 15) ? most : any_size(t, most);
    ret->host_at = any_offset(t, ret->h->size - ret->size);
    ret->device_at = any_offset(t, ret->d->size - ret->size);
    return true;
}

void say_ends(struct thread *t, const char *what, const struct ends *e, int stream, CUresult code)
{
    say(t, "%s %s+%zu device%d+%zu size %zu stream %d -> %d", what, kind_name(e->h->kind),
        e->host_at, (int)(e->d - t->now->device), e->device_at, e->size, stream, (int)code);
}

void copied(struct thread *t, const struct ends *e, int stream, bool to_host, bool async)
{
    struct host *h = e->h;
    unsigned char *at = h->at + e->host_at;
    if (h->kind == kind_managed || (async && !host_pageable(h)))
        h->busy |= stream_bit(t->now, stream);
    if (to_host) {
        if (chance(t, 70))
            host_settle(t, h);
        if (!h->busy)
            say(t, "arrived %016lx", (unsigned long)host_hash(h, at, e->size));
        return;
    }
    /* The program may overwrite a pageable source as soon as the call returns. */
    if (h->writable && !h->busy && (async || chance(t, 20)))
        fill(t, at, e->size);
    if (chance(t, 40))
        read_back(t, e->d, e->device_at, e->size);
}

/* Synchronous entry points work on the legacy stream or the per-thread stream. */
static CUresult h2d_sync(struct thread *t, int stream, CUdeviceptr d, unsigned char *h, size_t n)
{
    if (chance(t, 30))
        return stream == OWN ? CALL(t, cuMemcpy_ptds, d, (uintptr_t)h, n)
                             : CALL(t, cuMemcpy, d, (uintptr_t)h, n);
    return stream == OWN ? CALL(t, cuMemcpyHtoD_v2_ptds, d, h, n)
                         : CALL(t, cuMemcpyHtoD_v2, d, h, n);
}

static CUresult h2d_async(struct thread *t, int stream, CUdeviceptr d, unsigned char *h, size_t n)
{
    bool own;
    CUstream s = stream_handle(t, stream, &own);
    if (chance(t, 30))
        return own ? CALL(t, cuMemcpyAsync_ptsz, d, (uintptr_t)h, n, s)
                   : CALL(t, cuMemcpyAsync, d, (uintptr_t)h, n, s);
    return own ? CALL(t, cuMemcpyHtoDAsync_v2_ptsz, d, h, n, s)
               : CALL(t, cuMemcpyHtoDAsync_v2, d, h, n, s);
}

static CUresult d2h_sync(struct thread *t, int stream, unsigned char *h, CUdeviceptr d, size_t n)
{
    if (chance(t, 30))
        return stream == OWN ? CALL(t, cuMemcpy_ptds, (uintptr_t)h, d, n)
                             : CALL(t, cuMemcpy, (uintptr_t)h, d, n);
    return stream == OWN ? CALL(t, cuMemcpyDtoH_v2_ptds, h, d, n)
                         : CALL(t, cuMemcpyDtoH_v2, h, d, n);
}

static CUresult d2h_async(struct thread *t, int stream, unsigned char *h, CUdeviceptr d, size_t n)
{
    bool own;
    CUstream s = stream_handle(t, stream, &own);
    if (chance(t, 30))
        return own ? CALL(t, cuMemcpyAsync_ptsz, (uintptr_t)h, d, n, s)
                   : CALL(t, cuMemcpyAsync, (uintptr_t)h, d, n, s);
    return own ? CALL(t, cuMemcpyDtoHAsync_v2_ptsz, h, d, n, s)
               : CALL(t, cuMemcpyDtoHAsync_v2, h, d, n, s);
}

static CUresult copy_sync_or_async(struct thread *t, const struct ends *e, int stream, bool to_host,
                                   bool async)
{
    const CUdeviceptr d = e->d->at + e->device_at;
    unsigned char *h = e->h->at + e->host_at;
    if (to_host)
        return async ? d2h_async(t, stream, h, d, e->size) : d2h_sync(t, stream, h, d, e->size);
    return async ? h2d_async(t, stream, d, h, e->size) : h2d_sync(t, stream, d, h, e->size);
}

static void act_copy(struct thread *t, bool to_host, unsigned async_percent)
{
    struct ends e;
    bool async = chance(t, async_percent);
    int stream = async ? any_stream(t) : (int)any(t, 2);
    any_ends(t, to_host, &e);
    order(t, stream, &e.d->busy);
    if (e.h->busy)
        order(t, stream, &e.h->busy);
    CUresult result = copy_sync_or_async(t, &e, stream, to_host, async);
    static const char *const names[2][2] = {{"h2d", "h2d-async"}, {"d2h", "d2h-async"}};
    say_ends(t, names[to_host][async], &e, stream, result);
    if (result)
        refused(t);
    else
        copied(t, &e, stream, to_host, async);
}

void act_h2d(struct thread *t)
{
    act_copy(t, false, 60);
}

void act_d2h(struct thread *t)
{
    act_copy(t, true, 50);
}

/* Reads bytes of the device through a separate pageable buffer. */
void read_back(struct thread *t, struct device *d, size_t at, size_t size)
{
    struct host h = {.kind = kind_heap};
    int stream = any_stream(t);
    for (struct host *have = t->host; have < t->host + HOSTS; have++)
        if (have->kind != kind_none && host_pageable(have) && have->writable && !have->busy &&
            have->size >= size) {
            h = *have;
            break;
        }
    if (!h.at)
        return;
    unsigned char *to = h.at + any_offset(t, h.size - size);
    order(t, stream, &d->busy);
    CUresult result = stream == LEGACY ? d2h_sync(t, stream, to, d->at + at, size)
                                       : d2h_async(t, stream, to, d->at + at, size);
    say(t, "back device%d+%zu size %zu stream %d -> %d %016lx", (int)(d - t->now->device), at, size,
        stream, (int)result, (unsigned long)host_hash(&h, to, size));
}

void act_d2d(struct thread *t)
{
    struct device *to = any_device(t), *from = any_device(t);
    size_t half = (to->size < from->size ? to->size : from->size) / (to == from ? 2 : 1);
    size_t size = half ? any_size(t, half) : 0;
    size_t to_at = to == from ? to->size - size : any_offset(t, to->size - size);
    size_t from_at = to == from ? 0 : any_offset(t, from->size - size);
    int stream = any_stream(t);
    bool own, sync = stream == LEGACY && chance(t, 40);
    CUstream s = stream_handle(t, stream, &own);
    order(t, stream, &to->busy);
    order(t, stream, &from->busy);
    CUdeviceptr d = to->at + to_at, f = from->at + from_at;
    CUresult result;
    if (sync)
        result =
            chance(t, 50) ? CALL(t, cuMemcpyDtoD_v2, d, f, size) : CALL(t, cuMemcpy, d, f, size);
    else
        result = own ? CALL(t, cuMemcpyDtoDAsync_v2_ptsz, d, f, size, s)
                     : CALL(t, cuMemcpyDtoDAsync_v2, d, f, size, s);
    say(t, "d2d device%d+%zu from device%d+%zu size %zu stream %d -> %d",
        (int)(to - t->now->device), to_at, (int)(from - t->now->device), from_at, size, stream,
        (int)result);
    if (!result && chance(t, 30))
        read_back(t, to, to_at, size);
}

/* A copy from host to host is complete when the call returns, whatever the entry point. */
void act_h2h(struct thread *t)
{
    struct host *to = any_host(t, true), *from = any_host(t, false);
    if (to == from)
        return;
    host_settle(t, to);
    host_settle(t, from);
    if (to->kind == kind_half_registered || from->kind == kind_half_registered ||
        to->kind == kind_managed || from->kind == kind_managed)
        return; /* the driver may choose to return earlier */
    size_t size = any_size(t, to->size < from->size ? to->size : from->size);
    unsigned char *d = to->at + any_offset(t, to->size - size);
    unsigned char *s = from->at + any_offset(t, from->size - size);
    int stream = any_stream(t);
    CUresult result = stream == LEGACY ? CALL(t, cuMemcpy, (uintptr_t)d, (uintptr_t)s, size)
                                       : CALL(t, cuMemcpyAsync, (uintptr_t)d, (uintptr_t)s, size,
                                              stream == OWN ? CU_STREAM_PER_THREAD
                                                            : t->now->stream[stream].handle);
    say(t, "h2h %s from %s size %zu stream %d -> %d %016lx", kind_name(to->kind),
        kind_name(from->kind), size, stream, (int)result, (unsigned long)host_hash(to, d, size));
}

/*
 * Copies by the entry points that name contexts: inside one context, or from the other context
 * after its work has ended.
 */
void act_peer(struct thread *t)
{
    struct world *other = &t->world[t->now == &t->world[0]];
    struct device *to = any_device(t);
    const bool crosses = other->context && chance(t, 50);
    struct device *from = crosses ? &other->device[any(t, DEVICES)] : any_device(t);
    const CUcontext source = crosses ? other->context : t->now->context;
    size_t size = any_size(t, to->size < from->size ? to->size : from->size);
    int stream = any_stream(t);
    if (to == from)
        return;
    settle(t, from->busy);
    order(t, stream, &to->busy);
    CUresult result;
    if (stream == LEGACY && chance(t, 50))
        result = CALL(t, cuMemcpyPeer, to->at, t->now->context, from->at, source, size);
    else if (stream == OWN && chance(t, 50))
        result = CALL(t, cuMemcpyPeer_ptds, to->at, t->now->context, from->at, source, size);
    else if (stream == OWN)
        result =
            CALL(t, cuMemcpyPeerAsync_ptsz, to->at, t->now->context, from->at, source, size, NULL);
    else
        result = CALL(t, cuMemcpyPeerAsync, to->at, t->now->context, from->at, source, size,
                      stream == LEGACY ? CU_STREAM_LEGACY : t->now->stream[stream].handle);
    say(t, "peer %s size %zu stream %d -> %d", crosses ? "across" : "within", size, stream,
        (int)result);
    if (result)
        refused(t);
    settle(t, stream_bit(t->now, stream));
    read_back(t, to, 0, size);
}

static bool rows(struct thread *t, struct device *d, int stream, unsigned value)
{
    const size_t pitch = 64 * (1 + any(t, 8)), width = 1 + any(t, pitch),
                 height = any(t, d->size / pitch);
    if (stream >= 2 && height) {
        CUresult result = CALL(t, cuMemsetD2D8Async, d->at, pitch, (unsigned char)value, width,
                               height, t->now->stream[stream].handle);
        say(t, "memset rows %zu x %zu stream %d -> %d", width, height, stream, (int)result);
    } else if (stream == LEGACY && height) {
        CUresult result = CALL(t, cuMemsetD2D32_v2, d->at, pitch, value, width / 4, height);
        say(t, "memset rows %zu x %zu -> %d", width / 4, height, (int)result);
    } else {
        return false;
    }
    return true;
}

void act_memset(struct thread *t)
{
    struct device *d = any_device(t);
    size_t size = any_size(t, d->size), at = any_offset(t, d->size - size);
    int stream = any_stream(t);
    unsigned value = (unsigned)any(t, 1u << 31);
    CUstream s = stream == LEGACY ? CU_STREAM_LEGACY
                 : stream == OWN  ? CU_STREAM_PER_THREAD
                                  : t->now->stream[stream].handle;
    order(t, stream, &d->busy);
    CUresult result;
    if (chance(t, 30) && rows(t, d, stream, value))
        return;
    if (stream == LEGACY && chance(t, 50))
        result = CALL(t, cuMemsetD8_v2, d->at + at, (unsigned char)value, size);
    else if (stream == OWN && chance(t, 30))
        result = CALL(t, cuMemsetD8_v2_ptds, d->at + at, (unsigned char)value, size);
    else if ((d->at + at) % 4 == 0 && size >= 4 && stream == OWN && chance(t, 50))
        result = CALL(t, cuMemsetD32Async_ptsz, d->at + at, value, size / 4, NULL);
    else if ((d->at + at) % 4 == 0 && size >= 4)
        result = CALL(t, cuMemsetD32Async, d->at + at, value, size / 4, s);
    else if ((d->at + at) % 2 == 0 && size >= 2 && stream == LEGACY)
        result = CALL(t, cuMemsetD16_v2, d->at + at, (unsigned short)value, size / 2);
    else
        result = CALL(t, cuMemsetD8Async, d->at + at, (unsigned char)value, size, s);
    say(t, "memset device%d+%zu size %zu stream %d -> %d", (int)(d - t->now->device), at, size,
        stream, (int)result);
}
