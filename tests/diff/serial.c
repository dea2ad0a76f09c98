/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that share a stream: serial SEED STREAMS THREADS TURNS [whole]. In each turn a thread writes
 * or reads a whole buffer of the device, by an operation of a random kind. Each write has a value of
 * its own: its thread and its number. Operations of a stream have an order, so
 *
 * - each read sees the value of one write only;
 * - a thread's reads see its own last write or another thread's, never an older one of its own;
 * - of another thread's writes, a later read never sees an older one than an earlier read.
 *
 * STREAMS: `own`: a non-blocking stream; `legacy`: the legacy stream; `blocking`: threads use the
 * legacy stream, and the first one a blocking stream, too; `thread`: the first thread uses its
 * per-thread stream, the others the legacy stream. whole: without batches, whose members NVIDIA's driver
 * does not submit as one operation.
 */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 4 /* threads */
#define STEP 4096

enum streams { own, legacy, blocking, per_thread };

static CUcontext context;
static enum streams streams;
static CUstream shared;
static CUdeviceptr buffer;
static size_t size;
static unsigned threads, turns;
static bool whole;

/* A thread of the program. */
struct worker {
    unsigned number, written, random;
    unsigned seen[MOST]; /* the latest write of each thread that a read has seen */
    unsigned char *pageable, *pinned;
    CUdeviceptr scratch;
    CUstream stream; /* of the current turn */
    CUevent event;
};

static unsigned draw(struct worker *w, unsigned below)
{
    w->random = w->random * 1103515245u + 12345u;
    return (w->random >> 8) % below;
}

static unsigned value_of(struct worker *w)
{
    return w->number << 24 | ++w->written;
}

static void fill(void *at, unsigned value)
{
    unsigned *to = at;
    for (size_t i = 0; i < size / sizeof *to; i++)
        to[i] = value;
}

/* Ways to write the buffer. */

static void write_sync(struct worker *w)
{
    if (w->stream == CU_STREAM_PER_THREAD)
        MUST(cu.cuMemcpyHtoD_v2_ptds(buffer, w->pageable, size));
    else if (w->stream == CU_STREAM_LEGACY)
        MUST(cu.cuMemcpyHtoD_v2(buffer, w->pageable, size));
    else
        MUST(cu.cuMemcpyHtoDAsync_v2(buffer, w->pageable, size, w->stream));
}

static void write_async(struct worker *w)
{
    MUST(cu.cuMemcpyHtoDAsync_v2(buffer, w->pageable, size, w->stream));
}

static void write_block(struct worker *w)
{
    CUDA_MEMCPY2D block = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = w->pageable,
                           .srcPitch = STEP,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = buffer,
                           .dstPitch = STEP,
                           .WidthInBytes = STEP,
                           .Height = size / STEP};
    if (draw(w, 2) && w->stream == CU_STREAM_LEGACY)
        MUST(cu.cuMemcpy2D_v2(&block));
    else
        MUST(cu.cuMemcpy2DAsync_v2(&block, w->stream));
}

static void write_solid(struct worker *w)
{
    CUDA_MEMCPY3D solid = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = w->pageable,
                           .srcPitch = STEP,
                           .srcHeight = 2,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = buffer,
                           .dstPitch = STEP,
                           .dstHeight = 2,
                           .WidthInBytes = STEP,
                           .Height = 2,
                           .Depth = size / STEP / 2};
    MUST(cu.cuMemcpy3DAsync_v2(&solid, w->stream));
}

/* The members of a batch are the parts of the buffer. */
static void write_batch(struct worker *w)
{
    const size_t half = size / 2, part = size / 8;
    CUdeviceptr to[] = {buffer, buffer + half, buffer + half + part};
    CUdeviceptr from[] = {(uintptr_t)w->pageable, (uintptr_t)w->pageable + half,
                          (uintptr_t)w->pageable + half + part};
    size_t sizes[] = {half, part, size - half - part}, first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL};
    if (whole || streams != own) /* the simulated driver locks only the stream itself */
        write_async(w);
    else
        MUST(cu.cuMemcpyBatchAsync_v2(to, from, sizes, 3, &attributes, &first, 1, w->stream));
}

static void write_pinned(struct worker *w)
{
    MUST(cu.cuCtxSynchronize()); /* an earlier copy, also on another stream, may read the memory */
    memcpy(w->pinned, w->pageable, size);
    MUST(cu.cuMemcpyHtoDAsync_v2(buffer, w->pinned, size, w->stream));
}

static void write_fill(struct worker *w)
{
    MUST(cu.cuMemsetD32Async(buffer, *(unsigned *)w->pageable, size / 4, w->stream));
}

static void write_copy(struct worker *w)
{
    MUST(cu.cuMemsetD32Async(w->scratch, *(unsigned *)w->pageable, size / 4, w->stream));
    MUST(cu.cuMemcpyDtoDAsync_v2(buffer, w->scratch, size, w->stream));
}

static void write_peer(struct worker *w)
{
    MUST(cu.cuMemsetD32Async(w->scratch, *(unsigned *)w->pageable, size / 4, w->stream));
    MUST(cu.cuMemcpyPeerAsync(buffer, context, w->scratch, context, size, w->stream));
}

/* Ways to read the buffer into w->pageable or w->pinned, which the function returns. */

static unsigned char *read_sync(struct worker *w)
{
    if (w->stream == CU_STREAM_PER_THREAD)
        MUST(cu.cuMemcpyDtoH_v2_ptds(w->pageable, buffer, size));
    else if (w->stream == CU_STREAM_LEGACY)
        MUST(cu.cuMemcpyDtoH_v2(w->pageable, buffer, size));
    else
        MUST(cu.cuMemcpyDtoHAsync_v2(w->pageable, buffer, size, w->stream));
    return w->pageable;
}

static unsigned char *read_async(struct worker *w)
{
    MUST(cu.cuMemcpyDtoHAsync_v2(w->pageable, buffer, size, w->stream));
    return w->pageable;
}

static unsigned char *read_pinned(struct worker *w)
{
    MUST(cu.cuMemcpyDtoHAsync_v2(w->pinned, buffer, size, w->stream));
    MUST(cu.cuStreamSynchronize(w->stream));
    return w->pinned;
}

/* Records an event behind the copy, and waits for it. */
static unsigned char *read_event(struct worker *w)
{
    MUST(cu.cuMemcpyDtoHAsync_v2(w->pinned, buffer, size, w->stream));
    MUST(cu.cuEventRecord(w->event, w->stream));
    MUST(cu.cuEventSynchronize(w->event));
    return w->pinned;
}

static unsigned char *read_copy(struct worker *w)
{
    MUST(cu.cuMemcpyDtoDAsync_v2(w->scratch, buffer, size, w->stream));
    MUST(cu.cuMemcpyDtoHAsync_v2(w->pinned, w->scratch, size, w->stream));
    MUST(cu.cuStreamSynchronize(w->stream));
    return w->pinned;
}

static void check(struct worker *w, const unsigned char *bytes)
{
    const unsigned value = *(const unsigned *)bytes, by = value >> 24, number = value & 0xffffff;

    for (size_t at = 0; at < size; at += STEP)
        if (*(const unsigned *)(bytes + at) != value ||
            *(const unsigned *)(bytes + at + STEP - 4) != value)
            kit_fail("a read saw two writes; the second begins at", (long)at);
    if (by >= threads) /* the initial value */
        return;
    if (number < w->seen[by])
        kit_fail("a read saw an older write than an earlier read", (long)by);
    if (by == w->number && number != w->written)
        kit_fail("a read saw an older write of its own thread", (long)number);
    w->seen[by] = number;
}

static void nothing(void *unused)
{
    (void)unused;
}

/* Operations that leave the buffer unchanged. */
static void other(struct worker *w)
{
    switch (draw(w, 4)) {
    case 0:
        MUST(cu.cuLaunchHostFunc(w->stream, nothing, NULL));
        break;
    case 1:
        MUST(cu.cuEventRecord(w->event, w->stream));
        MUST(cu.cuStreamWaitEvent(w->stream, w->event, 0));
        break;
    case 2:
        MUST(cu.cuMemsetD32Async(w->scratch, 1, 64, w->stream));
        break;
    default:
        cu.cuStreamQuery(w->stream);
    }
}

static CUstream choose_stream(struct worker *w)
{
    switch (streams) {
    case own:
        return shared;
    case blocking:
        return w->number == 0 && draw(w, 2) ? shared : CU_STREAM_LEGACY;
    case per_thread:
        return w->number == 0 ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    default:
        return CU_STREAM_LEGACY;
    }
}

static void turn(struct worker *w)
{
    static void (*const writes[])(struct worker *) = {
        write_sync,  write_sync,   write_async, write_async, write_block, write_solid,
        write_batch, write_pinned, write_fill,  write_copy,  write_peer};
    static unsigned char *(*const reads[])(struct worker *) = {read_sync, read_async, read_pinned,
                                                               read_event, read_copy};
    const unsigned kind = draw(w, 10);

    w->stream = choose_stream(w);
    if (kind < 5) {
        fill(w->pageable, value_of(w));
        writes[draw(w, sizeof writes / sizeof *writes)](w);
        memset(w->pageable, 0xff, size); /* the source belongs to the program again */
    } else if (kind < 9) {
        check(w, reads[draw(w, sizeof reads / sizeof *reads)](w));
    } else {
        other(w);
    }
}

static void work(void *data)
{
    struct worker *w = data;

    w->pageable = kit_huge(size);
    w->pinned = kit_pinned(size);
    w->scratch = kit_device(size);
    MUST(cu.cuEventCreate(&w->event, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < turns; i++)
        turn(w);
}

static enum streams streams_of(const char *name)
{
    static const char *const names[] = {"own", "legacy", "blocking", "thread"};
    for (unsigned i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum streams)i;
    exit(2);
}

int main(int argc, char **argv)
{
    static struct worker workers[MOST];
    static const size_t sizes[] = {1 << 20, 2 << 20, (2 << 20) + 8192, 4 << 20, 12 << 20};
    if (argc < 5)
        return 2;
    const unsigned seed = (unsigned)atoi(argv[1]);
    streams = streams_of(argv[2]);
    threads = (unsigned)atoi(argv[3]);
    turns = (unsigned)atoi(argv[4]);
    whole = argc > 5 && strcmp(argv[5], "whole") == 0;
    size = sizes[seed % 5];
    context = kit_start();
    shared = kit_stream();
    if (streams == blocking)
        MUST(cu.cuStreamCreate(&shared, CU_STREAM_DEFAULT));
    buffer = kit_device(size);
    unsigned char *const host = kit_huge(size);
    for (unsigned i = 0; i < 40 && i * size < 96 * MIB; i++) /* from now on, the ring exists */
        MUST(cu.cuMemcpyHtoD_v2(buffer, host, size));
    MUST(cu.cuMemsetD32Async(buffer, MOST << 24, size / 4, NULL));
    MUST(cu.cuCtxSynchronize());
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct worker){.number = i, .random = seed * 31 + i * 7919};
        kit_thread(context, work, &workers[i]);
    }
    kit_join();
    puts("done");
    fflush(stdout);
    _exit(0);
}
