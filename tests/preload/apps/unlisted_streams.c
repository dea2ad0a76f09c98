/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches on more streams than the library's table of streams has slots, and prints how often the
 * library asked the driver for a stream's context. The test lets the 20000th call of cuStreamGetCtx
 * fail, so the program finds how many of the calls were not its own.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../../bench/spin_ptx.h"

#define STREAMS 700
#define LAUNCHES 20 /* on each stream */
#define FAILS 20000

static void must(CUresult result, int line)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("line %d: the driver answered %d\n", line, (int)result);
    exit(1);
}
#define MUST(call) must(call, __LINE__)

int main(void)
{
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUstream stream;
    uint64_t ns = 0;
    void *params[] = {&ns};
    unsigned own = 1;

    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadData(&module, spin_ptx));
    MUST(cuModuleGetFunction(&function, module, "spin"));
    for (unsigned i = 0; i < STREAMS; i++) {
        MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        for (unsigned launch = 0; launch < LAUNCHES; launch++)
            MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    }
    while (own <= FAILS && cuStreamGetCtx(stream, &context) == CUDA_SUCCESS)
        own++;
    printf("%d\n", FAILS - (int)own);
    return 0;
}
