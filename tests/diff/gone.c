/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread destroys the stream for which another thread's copy waits: gone h2d|d2h|met. Prints "done" if the copy is
 * made after the stream's work, and later copies, too. met: after the wait, a third thread is inside a call on the stream,
 * so the driver makes the copy.
 */
#include "kit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SIZE (16 * MIB)
#define ROUNDS 4

static CUdeviceptr device;
static CUstream stream;
static CUfunction spin;
static unsigned char *host;
static pid_t copier;
static CUcontext context;

static void wait_and_copy(void *back)
{
    unsigned long long ns = 200000000;
    void *arguments[] = {&ns};

    MUST(cu.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    MUST(cu.cuMemsetD8Async(device, 2, SIZE, stream));
    __atomic_store_n(&copier, gettid(), __ATOMIC_SEQ_CST);
    MUST(back ? cu.cuMemcpyDtoHAsync_v2(host, device, SIZE, stream)
              : cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
}

/* The stream is destroyed during this call, if the call takes long. */
static void meet(void *event)
{
    cu.cuStreamWaitEvent(stream, event, 0);
}

static void round_of(bool back, CUevent met)
{
    static bool yes = true;

    stream = kit_stream();
    for (unsigned i = 0; i < 8; i++) { /* the library stages the next copies */
        MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE, stream));
        MUST(cu.cuStreamSynchronize(stream));
    }
    memset(host, 1, SIZE);
    copier = 0;
    kit_thread(context, wait_and_copy, back ? &yes : NULL);
    while (!__atomic_load_n(&copier, __ATOMIC_SEQ_CST))
        kit_sleep_us(1000);
    for (unsigned i = 0; i < 100 && !kit_sleeps(copier); i++) /* a driver may wait without sleep */
        kit_sleep_us(1000);
    kit_sleep_us(30000);
    if (met)
        kit_thread(context, meet, met);
    while (met && cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
        kit_sleep_us(1000);
    kit_sleep_us(met ? 30000 : 0);
    MUST(cu.cuStreamDestroy_v2(stream));
    kit_join();
    MUST(cu.cuCtxSynchronize());
    if (!back)
        MUST(cu.cuMemcpyDtoH_v2(host, device, SIZE));
    for (size_t at = 0; at < SIZE; at += 4096)
        WANT(host[at] == (back ? 2 : 1));
}

int main(int argc, char **argv)
{
    CUmodule module;
    CUevent event;

    if (argc != 2)
        return 2;
    context = kit_start();
    MUST(cu.cuModuleLoadData(&module, ".version 7.0\n.target sm_80\n.address_size 64\n"
                                      ".visible .entry spin(.param .u64 ns) { ret; }\n"));
    MUST(cu.cuModuleGetFunction(&spin, module, "spin"));
    device = kit_device(SIZE);
    host = kit_pageable(SIZE);
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < ROUNDS; i++)
        round_of(strcmp(argv[1], "h2d") != 0, strcmp(argv[1], "met") == 0 ? event : NULL);
    puts("done");
    fflush(stdout);
    _exit(0);
}
