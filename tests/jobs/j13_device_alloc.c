/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inference in C without a memory pool: allocates and frees device memory for each layer. The simulated driver
 * takes 8 ms to free memory (run.sh), as a driver does that maps and unmaps much of it.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* clang-format off */
#define CALLS(X) \
    X(cuInit) \
    X(cuDevicePrimaryCtxRetain) \
    X(cuCtxSetCurrent) \
    X(cuMemAlloc_v2) \
    X(cuMemFree_v2) \
    X(cuMemcpyHtoD_v2) \
    X(cuStreamSynchronize) \
    X(cuModuleLoadData) \
    X(cuModuleGetFunction) \
    X(cuLaunchKernel)
/* clang-format on */

static struct {
#define FIELD(name) __typeof__(name) *name;
    CALLS(FIELD)
} cu;

static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry "
                          "spin(.param .u64 ns)\n{\nret;\n}\n";

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void must(CUresult result)
{
    if (result) {
        fprintf(stderr, "CUDA error %d\n", (int)result);
        exit(1);
    }
}

static void layer(CUfunction spin, const void *input, size_t size)
{
    CUdeviceptr activation;
    uint64_t ns = 5000000;
    void *params[] = {&ns};
    must(cu.cuMemAlloc_v2(&activation, size));
    must(cu.cuMemcpyHtoD_v2(activation, input, 4096));
    must(cu.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    must(cu.cuStreamSynchronize(NULL));
    must(cu.cuMemFree_v2(activation));
}

int main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CUcontext context;
    CUmodule module;
    CUfunction spin;
    static char input[4096];
    unsigned steps = 0;
    if (!library)
        return 77;
#define LOAD(name) cu.name = (__typeof__(name) *)dlsym(library, #name);
    CALLS(LOAD)
    must(cu.cuInit(0));
    must(cu.cuDevicePrimaryCtxRetain(&context, 0));
    must(cu.cuCtxSetCurrent(context));
    must(cu.cuModuleLoadData(&module, ptx));
    must(cu.cuModuleGetFunction(&spin, module, "spin"));
    const double end = now() + 15;
    for (; now() < end; steps++)
        for (int i = 0; i < 4; i++)
            layer(spin, input, 64 << 20);
    printf("%u steps, %.0f ms each\n", steps, 15e3 / steps);
    return 0;
}
