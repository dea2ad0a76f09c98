/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first calls are made by a constructor, so that the engine is loaded only after them: late legacy|own
 * LIBRARY. Work with a result in page-locked memory is on the legacy stream or on the thread's own, and a later
 * asynchronous copy from pageable memory waits for it.
 */
__attribute__((visibility("default"))) void late_begin(void);

#ifdef LIBRARY
static __attribute__((constructor)) void begin(void)
{
    late_begin();
}
#else
#include "kit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SIZE (16 * MIB)

static CUcontext context;
static CUstream stream;
static CUdeviceptr device, small;
static uint32_t *gate, *value;

/* Called by the constructor of the library that is this file, too. */
void late_begin(void)
{
    context = kit_start();
    device = kit_device(SIZE);
    small = kit_device(4096);
    gate = kit_pinned(4096);
    value = gate + 1;
    *gate = *value = 0;
    MUST(cu.cuMemsetD32Async(small, 7, 1, stream));
    MUST(cu.cuStreamSynchronize(stream));
    kit_hold(stream, gate);
    MUST(cu.cuMemcpyDtoHAsync_v2(value, small, 4, stream));
}

static void await_engine(void)
{
    int (*const active)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "gpufeed_active");

    for (unsigned i = 0; active && !active() && i < 10000; i++)
        kit_sleep_us(1000);
}

int main(int argc, char **argv)
{
    unsigned char *const host = kit_pageable(SIZE);

    if (argc != 3)
        return 2;
    stream = strcmp(argv[1], "own") == 0 ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    WANT(dlopen(argv[2], RTLD_NOW));
    await_engine();
    kit_complete_ring(device, host, SIZE, kit_stream());
    kit_thread(context, kit_release_late, gate);
    MUST(cu.cuMemcpyHtoDAsync_v2(device, host, SIZE / 4, stream)); /* the ring has room for it */
    WANT(__atomic_load_n(value, __ATOMIC_ACQUIRE) == 7);
    kit_join();
    MUST(cu.cuCtxSynchronize());
    puts("done");
    fflush(stdout);
    _exit(0);
}
#endif
