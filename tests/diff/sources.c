/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's copy of more than 2 MiB waits for the stream's earlier work, so a program may then overwrite the
 * page-locked source of an earlier copy: sources pinned|rows|registered. rows: the earlier copy has rows that are apart.
 * registered: its source was pageable until now, and copied from. Prints "done" if the device gets the old bytes.
 *
 * sources legacy-blocking|legacy-thread|blocking-blocking|event|event-gone: a host function on the first stream writes the
 * pageable source of a copy that the second stream makes later, because it waits for the legacy stream or for an event. Prints
 * "done" if the device gets the new bytes. The driver may read the first 2 MiB at once, so they are not checked. event-gone: the
 * first stream is destroyed before the second one waits.
 *
 * sources kernel: the same for a kernel on the copy's stream that writes pageable memory, as GPUs with HMM do.
 *
 * sources meanwhile: during a copy, which waits for a kernel, another thread puts a host function on the stream that
 * writes the copy's source. Prints "done" if each copy has only the old bytes or only the new ones.
 *
 * sources urgent: a real-time thread launches kernels on the stream during copies that wait for a kernel. Exits with code 77
 * if the machine permits no such thread.
 *
 * sources beside|beside-function: the stream waits once for another one, which had only a kernel or a host function and is never
 * synchronized. Prints whether a later copy returns before the stream's kernel has ended.
 */
#include "kit.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SOURCE (4 * MIB)
#define LARGE (24 * MIB) /* half of it is staged with few threads, too */
#define ROUNDS 12

static CUdeviceptr device, to;
static CUcontext context;
static CUstream stream;
static CUfunction spin, store;
static unsigned char *host;

static void prepare(void)
{
    CUmodule module;
    MUST(cu.cuModuleLoadData(
        &module,
        ".version 7.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry spin(.param .u64 ns) { ret; }\n"
        ".visible .entry store(.param .u64 byte, .param .u64 at, .param .u64 bytes) { ret; }\n"));
    MUST(cu.cuModuleGetFunction(&spin, module, "spin"));
    MUST(cu.cuModuleGetFunction(&store, module, "store"));
    stream = kit_stream();
    device = kit_device(LARGE);
    to = kit_device(SOURCE);
    host = kit_pageable(LARGE);
    kit_complete_ring(device, host, LARGE, stream);
}

static unsigned char *register_source(void)
{
    unsigned char *const source = kit_pageable(SOURCE);

    for (unsigned i = 0; i < 8; i++) /* the library remembers that it is pageable */
        MUST(cu.cuMemcpyHtoDAsync_v2(to, source, SOURCE, stream));
    MUST(cu.cuMemHostRegister_v2(source, SOURCE, 0));
    return source;
}

static void copy_rows(unsigned char *source)
{
    const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = source,
                                .srcPitch = SOURCE / 2,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = to,
                                .dstPitch = SOURCE / 2,
                                .WidthInBytes = SOURCE / 2 - 4096,
                                .Height = 2};
    MUST(cu.cuMemcpy2DAsync_v2(&rows, stream));
}

static void overwrite(unsigned char *source, bool rows)
{
    unsigned long long ns = 20000000;
    void *arguments[] = {&ns};

    memset(source, 7, SOURCE);
    MUST(cu.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    if (rows)
        copy_rows(source);
    else
        MUST(cu.cuMemcpyHtoDAsync_v2(to, source, SOURCE, stream));
    MUST(cu.cuMemcpyHtoDAsync_v2(device, host, LARGE / 2, stream));
    memset(source, 9, SOURCE);
    MUST(cu.cuMemcpyDtoHAsync_v2(host, to, SOURCE / 4, stream));
    for (size_t at = 0; at < SOURCE / 4; at += 4096)
        WANT(host[at] == 7);
}

static void launch_for(unsigned long long ns, CUstream on)
{
    void *arguments[] = {&ns};
    MUST(cu.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, on, arguments, NULL));
}

static void add_one(void *source)
{
    for (size_t at = 0; at < SOURCE; at++)
        ((unsigned char *)source)[at]++;
}

static void add_one_to_pages(void *source)
{
    for (size_t at = 0; at < LARGE / 2; at += 4096)
        ((unsigned char *)source)[at]++;
}

static void copy_from(unsigned char *source, unsigned form, CUstream on)
{
    const CUDA_MEMCPY2D block = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                 .srcHost = source,
                                 .srcPitch = 4096,
                                 .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .dstDevice = to,
                                 .dstPitch = 4096,
                                 .WidthInBytes = 4096,
                                 .Height = SOURCE / 4096};
    if (form == 0)
        MUST(cu.cuMemcpyHtoDAsync_v2(to, source, SOURCE, on));
    else if (form == 1)
        MUST(cu.cuMemcpy2DAsync_v2(&block, on));
    else
        MUST(cu.cuMemcpyHtoD_v2_ptds(to, source, SOURCE));
}

static void write_source(unsigned char *source, const char *how, unsigned round)
{
    static CUstream blocking[2], other;
    static CUevent event;

    if (!other) {
        MUST(cu.cuStreamCreate(&blocking[0], CU_STREAM_DEFAULT));
        MUST(cu.cuStreamCreate(&blocking[1], CU_STREAM_DEFAULT));
        other = kit_stream();
        MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    }
    const bool gone = strcmp(how, "event-gone") == 0, by_event = gone || strcmp(how, "event") == 0;
    const bool twice = strcmp(how, "blocking-blocking") == 0;
    if (gone)
        other = kit_stream();
    const CUstream first = by_event ? other : twice ? blocking[0] : CU_STREAM_LEGACY;
    const CUstream second = by_event                            ? stream
                            : strcmp(how, "legacy-thread") == 0 ? CU_STREAM_PER_THREAD
                                                                : blocking[1];
    launch_for(5000000, first);
    MUST(cu.cuLaunchHostFunc(first, add_one, source));
    if (twice)
        launch_for(5000000, CU_STREAM_LEGACY);
    if (by_event) {
        MUST(cu.cuEventRecord(event, first));
        if (gone)
            MUST(cu.cuStreamDestroy_v2(first));
        MUST(cu.cuStreamWaitEvent(second, event, 0));
    }
    copy_from(source, round % (second == CU_STREAM_PER_THREAD ? 3 : 2), second);
    MUST(cu.cuStreamSynchronize(second));
    MUST(cu.cuCtxSynchronize());
    MUST(cu.cuMemcpyDtoH_v2(host, to, SOURCE));
    for (size_t at = 2 * MIB; at < SOURCE; at += 4096)
        WANT(host[at] == source[at]);
}

static void store_by_kernel(unsigned char *source, unsigned round)
{
    const CUstream first = round % 3 == 2 ? CU_STREAM_LEGACY : stream,
                   second = first == stream ? stream : CU_STREAM_PER_THREAD;
    uint64_t byte = round + 1, at = (uintptr_t)source, bytes = SOURCE;
    void *arguments[] = {&byte, &at, &bytes};

    launch_for(5000000, first);
    MUST(cu.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, first, arguments, NULL));
    copy_from(source, round % 2, second);
    MUST(cu.cuStreamSynchronize(second));
    MUST(cu.cuMemcpyDtoH_v2(host, to, SOURCE));
    for (size_t i = 2 * MIB; i < SOURCE; i += 4096)
        WANT(host[i] == byte);
}

static bool returns_early(unsigned char *source, bool function)
{
    const CUstream other = kit_stream();
    unsigned early = 0;
    CUevent event;

    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    if (function)
        MUST(cu.cuLaunchHostFunc(other, add_one, source));
    else
        launch_for(1000, other);
    MUST(cu.cuEventRecord(event, other));
    MUST(cu.cuStreamWaitEvent(stream, event, 0));
    for (unsigned i = 0; i < ROUNDS && !early; i++) {
        MUST(cu.cuStreamSynchronize(stream));
        kit_sleep_us(100000); /* the sampler sees that all streams are idle */
        launch_for(100000000, stream);
        MUST(cu.cuEventRecord(event, stream));
        copy_from(source, 0, stream);
        early += cu.cuEventQuery(event) == CUDA_ERROR_NOT_READY;
    }
    return early;
}

static void launch_add(void *source)
{
    static unsigned delay;
    kit_sleep_us(delay += 31);
    MUST(cu.cuLaunchHostFunc(stream, add_one_to_pages, source));
}

static void copy_meanwhile(unsigned char *source)
{
    static unsigned round;

    /* A fast machine reads the source in 1 ms. */
    launch_for(1000000 + 400000 * (round++ % 6), stream);
    kit_thread(context, launch_add, source);
    MUST(cu.cuMemcpyHtoDAsync_v2(device, source, LARGE / 2, stream));
    kit_join();
    MUST(cu.cuStreamSynchronize(stream));
    MUST(cu.cuMemcpyDtoH_v2(host, device, LARGE / 2));
    for (size_t at = 2 * MIB; at < LARGE / 2; at += 4096)
        WANT(host[at] == host[2 * MIB]);
}

static volatile bool over;

static void launch_often(void *unused)
{
    const struct sched_param lowest = {.sched_priority = 1};

    (void)unused;
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest))
        _exit(77);
    while (!over) {
        launch_for(1000, stream);
        kit_sleep_us(300);
    }
}

static void copy_beside_launches(unsigned char *source)
{
    for (unsigned i = 0; i < ROUNDS; i++) { /* the library stages the next copies */
        MUST(cu.cuMemcpyHtoDAsync_v2(device, source, LARGE / 2, stream));
        MUST(cu.cuStreamSynchronize(stream));
    }
    kit_thread(context, launch_often, NULL);
    for (unsigned i = 0; i < 2 * ROUNDS; i++) {
        launch_for(3000000, stream);
        MUST(cu.cuMemcpyHtoDAsync_v2(device, source, LARGE / 2, stream));
        MUST(cu.cuStreamSynchronize(stream));
    }
    over = true;
    kit_join();
}

int main(int argc, char **argv)
{
    unsigned char *pinned;

    if (argc != 2)
        return 2;
    context = kit_start();
    prepare();
    if (strcmp(argv[1], "meanwhile") == 0) {
        unsigned char *const source = kit_pageable(LARGE / 2);
        for (unsigned i = 0; i < kit_rounds(8 * ROUNDS); i++)
            copy_meanwhile(source);
        puts("done");
        return 0;
    }
    if (strcmp(argv[1], "urgent") == 0) {
        copy_beside_launches(kit_pageable(LARGE / 2));
        puts("done");
        return 0;
    }
    if (strncmp(argv[1], "beside", 6) == 0) {
        puts(returns_early(kit_pageable(SOURCE), argv[1][6]) ? "returns early" : "always waits");
        return 0;
    }
    if (strcmp(argv[1], "kernel") == 0) {
        unsigned char *const source = kit_pageable(SOURCE);
        for (unsigned i = 0; i < ROUNDS; i++)
            store_by_kernel(source, i);
        puts("done");
        return 0;
    }
    if (strchr(argv[1], '-') || strcmp(argv[1], "event") == 0) {
        unsigned char *const source = kit_pageable(SOURCE);
        for (unsigned i = 0; i < ROUNDS; i++)
            write_source(source, argv[1], i);
        puts("done");
        return 0;
    }
    pinned = kit_pinned(SOURCE);
    for (unsigned i = 0; i < ROUNDS; i++)
        overwrite(strcmp(argv[1], "registered") == 0 ? register_source() : pinned,
                  strcmp(argv[1], "rows") == 0);
    puts("done");
    fflush(stdout);
    _exit(0);
}
