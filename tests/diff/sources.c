/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's copy of more than 2 MiB waits for the stream's earlier work, so a program may then overwrite the
 * page-locked source of an earlier copy: sources pinned|rows|registered. rows: the earlier copy has rows that are apart.
 * registered: its source was pageable until now, and copied from. Prints "done" if the device gets the old bytes.
 */
#include "kit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SOURCE (4 * MIB)
#define LARGE (32 * MIB)
#define ROUNDS 12

static CUdeviceptr device, to;
static CUstream stream;
static CUfunction spin;
static unsigned char *host;

static void prepare(void)
{
    CUmodule module;
    MUST(cu.cuModuleLoadData(&module, ".version 7.0\n.target sm_80\n.address_size 64\n"
                                      ".visible .entry spin(.param .u64 ns) { ret; }\n"));
    MUST(cu.cuModuleGetFunction(&spin, module, "spin"));
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

int main(int argc, char **argv)
{
    unsigned char *pinned;

    if (argc != 2)
        return 2;
    kit_start();
    prepare();
    pinned = kit_pinned(SOURCE);
    for (unsigned i = 0; i < ROUNDS; i++)
        overwrite(strcmp(argv[1], "registered") == 0 ? register_source() : pinned,
                  strcmp(argv[1], "rows") == 0);
    puts("done");
    fflush(stdout);
    _exit(0);
}
