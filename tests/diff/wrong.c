/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that the driver refuses, and the state after a fault on the device. */
#include "diff.h"

#include <string.h>
#include <sys/mman.h>

/*
 * A copy beyond the end of a device buffer or of pinned memory. It must not read or write any byte.
 */
static CUresult past_an_end(struct thread *t, bool to_host)
{
    struct device *d = any_device(t);
    struct host *h = any_host(t, to_host);
    for (int tries = 0; tries < 20 && h->size <= d->size; tries++)
        h = any_host(t, to_host);
    for (int tries = 0; tries < 20 && h->size <= d->size; tries++)
        d = any_device(t);
    size_t size = d->size + 1 + any(t, 5000), from = any_offset(t, d->size - 1);
    bool own;
    int stream = any_stream(t);
    CUstream s = stream_handle(t, stream, &own);
    if (h->size < size || h->busy || d->pooled) /* a pool's memory may continue after the buffer */
        return CUDA_SUCCESS;
    order(t, stream, &d->busy);
    CUresult result;
    if (to_host && stream == LEGACY)
        result = CALL(t, cuMemcpyDtoH_v2, h->at, d->at + from, size);
    else if (to_host)
        result = own ? CALL(t, cuMemcpyDtoHAsync_v2_ptsz, h->at, d->at + from, size, s)
                     : CALL(t, cuMemcpyDtoHAsync_v2, h->at, d->at + from, size, s);
    else if (stream == LEGACY)
        result = CALL(t, cuMemcpyHtoD_v2, d->at + from, h->at, size);
    else
        result = own ? CALL(t, cuMemcpyHtoDAsync_v2_ptsz, d->at + from, h->at, size, s)
                     : CALL(t, cuMemcpyHtoDAsync_v2, d->at + from, h->at, size, s);
    say(t, "past the end of %zu, %s %zu+%zu stream %d -> %d %016lx", d->size,
        to_host ? "to host" : "from host", from, size, stream, (int)result,
        (unsigned long)host_hash(h, h->at, size));
    refused(t);
    read_back(t, d, 0, d->size);
    return result;
}

/*
 * A copy with unmapped host memory. The driver checks the device address first, and reports its
 * error.
 */
static CUresult nothing_there(struct thread *t)
{
    struct device *d = any_device(t);
    void *hole = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t size = d->size + 1 + any(t, 100);
    if (d->pooled)
        size = 0;
    CUresult result = chance(t, 50) ? CALL(t, cuMemcpyHtoD_v2, d->at, hole, size)
                                    : CALL(t, cuMemcpyDtoH_v2, hole, d->at, size);
    munmap(hole, 1 << 20);
    return result;
}

void act_wrong(struct thread *t)
{
    struct host *h = any_host(t, true), *other = any_host(t, false);
    struct device *d = any_device(t);
    size_t size = any_size(t, h->size < d->size ? h->size : d->size);
    CUresult result;
    if (!host_pageable(h) || !host_pageable(other) || h->busy || other->busy)
        return;
    size_t both = size < other->size ? size : other->size;
    unsigned what = (unsigned)any(t, 12);
    switch (what) {
    case 0:
    case 1:
        result = past_an_end(t, what);
        break;
    case 2:
        result = nothing_there(t);
        break;
    case 3:
        result = CALL(t, cuMemcpyHtoD_v2, 0, h->at, size);
        break;
    case 4:
        /* an address that does not belong to the device */
        result = CALL(t, cuMemcpyHtoD_v2, (uintptr_t)other->at, h->at, both);
        break;
    case 5:
        result = CALL(t, cuMemcpyHtoDAsync_v2, (uintptr_t)other->at, h->at, both, CU_STREAM_LEGACY);
        break;
    case 6:
        result = CALL(t, cuMemcpyDtoH_v2, h->at, (uintptr_t)other->at, both);
        break;
    case 7:
        result = CALL(t, cuMemcpyDtoHAsync_v2, h->at, 0, size, CU_STREAM_PER_THREAD);
        break;
    case 8:
        result = CALL(t, cuMemcpyHtoD_v2, chance(t, 50) ? d->at : 0, NULL, 0);
        break;
    case 9:
        result = CALL(t, cuMemcpyHtoDAsync_v2, d->at, h->at, 0, CU_STREAM_PER_THREAD);
        break;
    case 10:
        result = CALL(t, cuMemcpyDtoD_v2, d->at, (uintptr_t)other->at, both);
        break;
    default: {
        CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = h->at,
                           .srcPitch = 64,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = d->at,
                           .dstPitch = 128,
                           .WidthInBytes = 100,
                           .Height = 2};
        result = CALL(t, cuMemcpy2D_v2, &c);
    }
    }
    say(t, "wrong %u size %zu -> %d %016lx", what, size, (int)result,
        (unsigned long)host_hash(h, h->at, size));
}

void act_without_context(struct thread *t)
{
    struct device *d = any_device(t);
    struct host *h = any_host(t, true);
    void *pinned = NULL;
    if (!host_pageable(h) || h->busy)
        return;
    size_t size = any_size(t, h->size < d->size ? h->size : d->size);
    settle(t, d->busy);
    MUST(t, cuCtxSetCurrent, NULL);
    CUresult codes[] = {
        CALL(t, cuMemcpyHtoD_v2, d->at, h->at, size),
        CALL(t, cuMemcpyHtoDAsync_v2, d->at, h->at, size, CU_STREAM_LEGACY),
        CALL(t, cuMemcpyDtoHAsync_v2, h->at, d->at, size, CU_STREAM_PER_THREAD),
        CALL(t, cuMemHostAlloc, &pinned, size, 0),
        CALL(t, cuMemFreeHost, NULL),
        CALL(t, cuMemHostRegister_v2, h->at, size, 0),
        CALL(t, cuMemHostUnregister, h->at),
    };
    MUST(t, cuCtxSetCurrent, t->now->context);
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        say(t, "without context %zu -> %d", i, (int)codes[i]);
    say(t, "host %016lx", (unsigned long)host_hash(h, h->at, size));
    read_back(t, d, 0, d->size);
}

/*
 * Breaks the context by a trap. From then on every call fails with the same code, and no call waits
 * for ever.
 */
void act_break(struct thread *t)
{
    struct device *d = any_device(t);
    struct host *h = any_host(t, true), *pinned = NULL;
    void *more = NULL;
    for (int i = 0; i < HOSTS; i++)
        if (t->host[i].kind == kind_pinned)
            pinned = &t->host[i];
    size_t size = h->size < d->size ? h->size : d->size;
    MUST(t, cuLaunchKernel, t->now->trap, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_LEGACY, NULL, NULL);
    say(t, "trap -> %d", (int)CALL(t, cuStreamSynchronize, CU_STREAM_LEGACY));
    t->ended = true;
    for (int round = 0; round < 3; round++) {
        say(t, "h2d -> %d", (int)CALL(t, cuMemcpyHtoD_v2, d->at, h->at, size));
        say(t, "h2d-async -> %d",
            (int)CALL(t, cuMemcpyHtoDAsync_v2, d->at, h->at, size, t->now->stream[3].handle));
        say(t, "d2h -> %d", (int)CALL(t, cuMemcpyDtoH_v2, h->at, d->at, size));
        say(t, "d2h-async -> %d",
            (int)CALL(t, cuMemcpyDtoHAsync_v2, h->at, d->at, size, t->now->stream[2].handle));
        say(t, "host alloc -> %d", (int)CALL(t, cuMemHostAlloc, &more, size, 0));
        say(t, "register -> %d", (int)CALL(t, cuMemHostRegister_v2, h->at, size, 0));
        if (pinned)
            say(t, "free host -> %d", (int)CALL(t, cuMemFreeHost, pinned->at));
    }
}
