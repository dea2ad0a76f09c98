/* SPDX-License-Identifier: Apache-2.0 */
/*
 * captures MODE COUNT: one thread captures repeatedly, while others copy pageable memory and allocate
 * pinned memory as the mode permits. Each capture must succeed and contain its nodes. The modes are
 * global, local and relaxed. In mode global, threads that make forbidden calls have set their capture
 * mode to RELAXED.
 */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE (6 * MIB)

static CUcontext context;
static volatile bool stop;
static unsigned long rounds[3];
/* number of other threads that have started */
static unsigned ready;

/* Copies that every mode allows during a capture on a non-blocking stream. */
static void copier(void *data)
{
    unsigned long *done = data;
    unsigned char *host = kit_huge(SIZE), *back = kit_huge(SIZE);
    CUdeviceptr to = kit_device(SIZE);
    CUstream own = kit_stream();
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; !stop; i++, ++*done) {
        kit_fill(host, SIZE, i);
        MUST(i & 1 ? cu.cuMemcpyHtoD_v2(to, host, SIZE)
                   : cu.cuMemcpyHtoDAsync_v2(to, host, SIZE, own));
        MUST(i & 1 ? cu.cuMemcpyDtoH_v2(back, to, SIZE)
                   : cu.cuMemcpyDtoHAsync_v2(back, to, SIZE, own));
        WANT(kit_is(back, SIZE, i));
    }
}

/* Allocates pinned memory. During a GLOBAL capture, only threads in mode RELAXED may do so. */
static void allocator(void *data)
{
    unsigned long *done = data;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    unsigned char *host = kit_huge(SIZE);
    MUST(cu.cuThreadExchangeStreamCaptureMode(&mode));
    CUdeviceptr to = kit_device(SIZE);
    CUstream own = kit_stream();
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; !stop; i++, ++*done) {
        void *block = kit_pinned(i % 8 == 0 ? 16 * MIB : i & 1 ? 4096 : MIB);
        MUST(cu.cuMemcpyHtoDAsync_v2(to, host, SIZE, own));
        MUST(cu.cuStreamSynchronize(own));
        if (i % 4 == 0) {
            MUST(cu.cuMemHostRegister_v2(host, SIZE, 0));
            MUST(cu.cuMemHostUnregister(host));
        }
        MUST(cu.cuMemFreeHost(block));
    }
    mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    MUST(cu.cuThreadExchangeStreamCaptureMode(&mode));
    /* The library has not changed this thread's mode. */
    WANT(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
}

static unsigned char *pinned, *pageable;
static CUdeviceptr device;

static void capture(CUstream stream, CUstreamCaptureMode mode, unsigned round)
{
    CUgraph graph = NULL;
    size_t nodes = 0;
    MUST(cu.cuStreamBeginCapture_v2(stream, mode));
    MUST(cu.cuMemsetD8Async(device, 1, SIZE, stream));
    MUST(cu.cuMemcpyHtoDAsync_v2(device, pinned, SIZE, stream));
    MUST(cu.cuMemcpyHtoDAsync_v2(device, pageable, round & 1 ? SIZE : 4096, stream));
    if (round % 7 == 0) /* the capturing thread itself copies on another stream */
        MUST(cu.cuMemcpyHtoD_v2(device, pageable, SIZE));
    MUST(cu.cuMemcpyDtoHAsync_v2(pinned, device, SIZE, stream));
    MUST(cu.cuStreamEndCapture(stream, &graph));
    MUST(cu.cuGraphGetNodes(graph, NULL, &nodes));
    if (nodes != 4)
        kit_fail("nodes", (long)nodes);
    MUST(cu.cuGraphDestroy(graph));
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const CUstreamCaptureMode mode = strcmp(argv[1], "global") == 0 ? CU_STREAM_CAPTURE_MODE_GLOBAL
                                     : strcmp(argv[1], "local") == 0
                                         ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                         : CU_STREAM_CAPTURE_MODE_RELAXED;
    const unsigned long count = strtoul(argv[2], NULL, 10);
    context = kit_start();
    CUstream stream = kit_stream();
    kit_alarm(300);
    kit_thread(context, copier, &rounds[0]);
    kit_thread(context, copier, &rounds[1]);
    kit_thread(context, allocator, &rounds[2]);
    pinned = kit_pinned(SIZE);
    pageable = kit_huge(SIZE);
    device = kit_device(SIZE);
    while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < 3)
        kit_sleep_us(1000);
    unsigned long round = 0;
    while (round < count || rounds[0] < 20 || rounds[1] < 20 || rounds[2] < 20) {
        capture(stream, mode, (unsigned)round++);
        if (round > count) /* waits until the other threads have started */
            kit_sleep_us(100);
    }
    stop = true;
    kit_join();
    puts("done");
    return 0;
}
