/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of two- and three-dimensional blocks, contiguous or not, and batches of copies. */
#include "diff.h"

struct block {
    struct ends ends; /* size: bytes from the first to the last, at the destination */
    size_t width, height, depth, host_pitch, device_pitch;
};

static size_t extent(const struct block *b, size_t pitch)
{
    return (b->height * b->depth - 1) * pitch + b->width;
}

/* Chooses a block whose rows fit both ends. Every third block has no gaps. */
static bool any_block(struct thread *t, bool to_host, size_t most_deep, struct block *ret)
{
    struct ends *e = &ret->ends;
    e->h = any_host(t, to_host);
    e->d = any_device(t);
    size_t room = e->h->size < e->d->size ? e->h->size : e->d->size;
    ret->width = any_size(t, room < 65536 ? room : 65536);
    ret->host_pitch = chance(t, 33) ? ret->width : ret->width + any(t, 300);
    ret->device_pitch = ret->host_pitch == ret->width ? ret->width : ret->width + any(t, 300);
    size_t pitch = ret->host_pitch > ret->device_pitch ? ret->host_pitch : ret->device_pitch;
    size_t rows = room / pitch;
    if (!rows)
        return false;
    rows = any_size(t, rows < 4000 ? rows : 4000);
    ret->depth = rows >= most_deep ? 1 + any(t, most_deep) : 1;
    ret->height = rows / ret->depth;
    size_t host_size = extent(ret, ret->host_pitch), device_size = extent(ret, ret->device_pitch);
    e->host_at = any_offset(t, e->h->size - host_size);
    e->device_at = any_offset(t, e->d->size - device_size);
    e->size = to_host ? host_size : device_size;
    return true;
}

/* Checks a copied block. The copy may change only bytes inside the rows of the host memory. */
static void block_copied(struct thread *t, struct block *b, int stream, bool to_host, bool async)
{
    struct ends e = b->ends;
    struct device *d = e.d;
    size_t at = e.device_at, size = extent(b, b->device_pitch);
    bool look = !to_host && chance(t, 60);
    e.size = extent(b, b->host_pitch);
    if (to_host) {
        copied(t, &e, stream, true, async);
    } else {
        if (async && !host_pageable(e.h))
            e.h->busy |= stream_bit(t->now, stream);
        else if (e.h->writable && !e.h->busy && e.h->kind != kind_managed)
            fill(t, e.h->at + e.host_at, e.size);
        if (e.h->kind == kind_managed)
            e.h->busy |= stream_bit(t->now, stream);
    }
    if (look)
        read_back(t, d, at, size);
}

static void say_block(struct thread *t, const char *what, const struct block *b, bool to_host,
                      int stream, CUresult code)
{
    char text[96];
    snprintf(text, sizeof text, "%s %s %zu x %zu x %zu pitch %zu %zu", what,
             to_host ? "to" : "from", b->width, b->height, b->depth, b->host_pitch,
             b->device_pitch);
    say_ends(t, text, &b->ends, stream, code);
}

void act_2d(struct thread *t)
{
    struct block b;
    bool own, to_host = chance(t, 45), async = chance(t, 60);
    int stream = async ? any_stream(t) : (int)any(t, 2);
    CUstream s = stream_handle(t, stream, &own);
    if (!any_block(t, to_host, 1, &b))
        return;
    unsigned char *h = b.ends.h->at + b.ends.host_at;
    CUdeviceptr d = b.ends.d->at + b.ends.device_at;
    const CUmemorytype host_type = chance(t, 20) ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_HOST;
    CUDA_MEMCPY2D c = {.WidthInBytes = b.width, .Height = b.height};
    c.srcMemoryType = to_host ? CU_MEMORYTYPE_DEVICE : host_type;
    c.dstMemoryType = to_host ? host_type : CU_MEMORYTYPE_DEVICE;
    c.srcPitch = to_host ? b.device_pitch : b.host_pitch;
    c.dstPitch = to_host ? b.host_pitch : b.device_pitch;
    c.srcHost = c.dstHost = h;
    c.srcDevice = c.dstDevice = d;
    if (host_type == CU_MEMORYTYPE_UNIFIED)
        *(to_host ? &c.dstDevice : &c.srcDevice) = (uintptr_t)h;
    order(t, stream, &b.ends.d->busy);
    if (b.ends.h->busy)
        order(t, stream, &b.ends.h->busy);
    CUresult result;
    if (async)
        result = own ? CALL(t, cuMemcpy2DAsync_v2_ptsz, &c, s) : CALL(t, cuMemcpy2DAsync_v2, &c, s);
    else if (stream == OWN)
        result = CALL(t, cuMemcpy2D_v2_ptds, &c);
    else
        result = chance(t, 50) ? CALL(t, cuMemcpy2D_v2, &c) : CALL(t, cuMemcpy2DUnaligned_v2, &c);
    say_block(t, async ? "2d-async" : "2d", &b, to_host, stream, result);
    if (result)
        refused(t);
    else
        block_copied(t, &b, stream, to_host, async);
}

void act_3d(struct thread *t)
{
    struct block b;
    bool own, to_host = chance(t, 45), async = chance(t, 60);
    int stream = async ? any_stream(t) : (int)any(t, 2);
    CUstream s = stream_handle(t, stream, &own);
    if (!any_block(t, to_host, 5, &b))
        return;
    CUDA_MEMCPY3D c = {.WidthInBytes = b.width, .Height = b.height, .Depth = b.depth};
    c.srcMemoryType = to_host ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    c.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    c.srcPitch = to_host ? b.device_pitch : b.host_pitch;
    c.dstPitch = to_host ? b.host_pitch : b.device_pitch;
    c.srcHeight = c.dstHeight = b.height;
    c.srcHost = c.dstHost = b.ends.h->at + b.ends.host_at;
    c.srcDevice = c.dstDevice = b.ends.d->at + b.ends.device_at;
    order(t, stream, &b.ends.d->busy);
    if (b.ends.h->busy)
        order(t, stream, &b.ends.h->busy);
    CUresult result;
    if (async)
        result = own ? CALL(t, cuMemcpy3DAsync_v2_ptsz, &c, s) : CALL(t, cuMemcpy3DAsync_v2, &c, s);
    else
        result = stream == OWN ? CALL(t, cuMemcpy3D_v2_ptds, &c) : CALL(t, cuMemcpy3D_v2, &c);
    say_block(t, async ? "3d-async" : "3d", &b, to_host, stream, result);
    if (result)
        refused(t);
    else
        block_copied(t, &b, stream, to_host, async);
}

enum { MEMBERS = 4 };

struct batch {
    CUdeviceptr to[MEMBERS], from[MEMBERS];
    size_t size[MEMBERS], first[2];
    struct ends ends[MEMBERS];
    CUmemcpyAttributes attributes[2];
    size_t count, kinds;
};

static CUresult issue(struct thread *t, struct batch *b, bool own, CUstream s)
{
    size_t failed = 0;
    if (cu.cuMemcpyBatchAsync && chance(t, 30))
        return own ? CALL(t, cuMemcpyBatchAsync_ptsz, b->to, b->from, b->size, b->count,
                          b->attributes, b->first, b->kinds, &failed, s)
                   : CALL(t, cuMemcpyBatchAsync, b->to, b->from, b->size, b->count, b->attributes,
                          b->first, b->kinds, &failed, s);
    return own ? CALL(t, cuMemcpyBatchAsync_v2_ptsz, b->to, b->from, b->size, b->count,
                      b->attributes, b->first, b->kinds, s)
               : CALL(t, cuMemcpyBatchAsync_v2, b->to, b->from, b->size, b->count, b->attributes,
                      b->first, b->kinds, s);
}

static CUmemcpySrcAccessOrder order_of(const struct batch *b, size_t member)
{
    return b->attributes[b->kinds == 2 && member >= b->first[1]].srcAccessOrder;
}

/*
 * Returns whether the member's source is read in stream order. With other orders, the driver may
 * read it at once, so the stream must have no unfinished work that writes it.
 */
static bool in_order(const struct batch *b, size_t member)
{
    return order_of(b, member) == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
}

/* Members copy to separate device buffers, because the driver chooses their order. */
static bool make_batch(struct thread *t, struct batch *b, int stream)
{
    static const CUmemcpySrcAccessOrder orders[] = {CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
                                                    CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
                                                    CU_MEMCPY_SRC_ACCESS_ORDER_ANY};
    b->count = 1 + any(t, MEMBERS);
    b->kinds = b->count > 1 && chance(t, 50) ? 2 : 1;
    b->first[1] = b->kinds == 2 ? 1 + any(t, b->count - 1) : 0;
    for (size_t i = 0; i < 2; i++)
        b->attributes[i].srcAccessOrder = orders[any(t, 3)];
    for (size_t i = 0; i < b->count; i++) {
        struct ends *e = &b->ends[i];
        any_ends(t, false, e);
        for (size_t j = 0; j < i; j++)
            if (b->ends[j].d == e->d || b->ends[j].h == e->h) {
                refused(t);
                return false;
            }
        order(t, stream, &e->d->busy);
        if (in_order(b, i) && e->h->busy)
            order(t, stream, &e->h->busy);
        else
            host_settle(t, e->h);
        b->to[i] = e->d->at + e->device_at;
        b->from[i] = (uintptr_t)e->h->at + e->host_at;
        b->size[i] = e->size;
    }
    return true;
}

/*
 * After a refused batch, overwrites the destinations with known bytes, because the driver does not
 * report how many members it copied.
 */
static void blank(struct thread *t, const struct batch *b, CUstream s)
{
    for (size_t i = 0; i < b->count; i++)
        MUST(t, cuMemsetD8Async, b->to[i], 0, b->size[i], s);
}

/*
 * After a batch, the program may reuse a source at once only if it requested that order. Otherwise
 * the stream may still read the source.
 */
void act_batch(struct thread *t)
{
    struct batch b = {0};
    int stream = 1 + (int)any(t, STREAMS - 1);
    CUstream s = stream == OWN ? CU_STREAM_PER_THREAD : t->now->stream[stream].handle;
    if (!cu.cuMemcpyBatchAsync_v2 || !make_batch(t, &b, stream))
        return;
    CUresult result = issue(t, &b, chance(t, 50), s);
    say(t, "batch of %zu, %zu kinds stream %d -> %d", b.count, b.kinds, stream, (int)result);
    if (result) {
        refused(t);
        blank(t, &b, s);
    }
    for (size_t i = 0; i < b.count && !result; i++) {
        struct ends *e = &b.ends[i];
        bool during = order_of(&b, i) == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
        say_ends(t, during ? "member during" : "member", e, stream, result);
        if (!during || e->h->kind == kind_managed || options.leaves_batches)
            e->h->busy |= stream_bit(t->now, stream);
        else if (e->h->writable)
            fill(t, e->h->at + e->host_at, e->size);
        if (chance(t, 50))
            read_back(t, e->d, e->device_at, e->size);
    }
}
