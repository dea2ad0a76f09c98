/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mistakes for compute-sanitizer to find: planted MODE BYTES
 *
 *   clean      copies of BYTES each way, pageable and pinned, with nothing wrong
 *   oob        a kernel writes behind the end of a pinned block
 *   uaf        a kernel writes to a pinned block that was freed
 *   far        a kernel writes far away from everything
 *   copy       a pageable copy that is longer than its destination
 *   free       the same pinned block is freed twice
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS(X)                                                                                   \
    X(cuInit)                                                                                      \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuCtxSetCurrent)                                                                             \
    X(cuCtxSynchronize)                                                                            \
    X(cuMemAlloc_v2)                                                                               \
    X(cuMemFree_v2)                                                                                \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemFreeHost)                                                                               \
    X(cuMemcpyHtoD_v2)                                                                             \
    X(cuMemcpyDtoH_v2)                                                                             \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuLaunchKernel)

static struct {
#define FIELD(name) __typeof__(name) *name;
    CALLS(FIELD)
#undef FIELD
} cu;

static void start(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    CUcontext context;
    if (!handle)
        exit(77);
#define LOAD(name) cu.name = (__typeof__(name) *)dlsym(handle, #name);
    CALLS(LOAD)
#undef LOAD
    if (cu.cuInit(0) || cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context))
        exit(3);
}

static int poke(uint64_t at)
{
    static const char text[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry poke(.param .u64 at)\n{\n.reg .u64 %a;\n"
                               "ld.param.u64 %a, [at];\nst.global.u32 [%a], 1;\nret;\n}\n";
    CUmodule module;
    CUfunction function;
    void *params[] = {&at};
    if (cu.cuModuleLoadData(&module, text) || cu.cuModuleGetFunction(&function, module, "poke") ||
        cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL))
        exit(3);
    return cu.cuCtxSynchronize();
}

static int copies(size_t size)
{
    CUdeviceptr device;
    char *pageable = malloc(size), *back = malloc(size);
    void *pinned;
    if (!pageable || !back || cu.cuMemAlloc_v2(&device, size) ||
        cu.cuMemHostAlloc(&pinned, size, 0))
        return 3;
    memset(pageable, 7, size);
    memset(back, 0, size);
    int failed = (int)cu.cuMemcpyHtoD_v2(device, pageable, size);
    failed |= (int)cu.cuMemcpyDtoH_v2(back, device, size);
    failed |= (int)cu.cuMemcpyDtoH_v2(pinned, device, size);
    failed |= memcmp(back, pageable, size) || memcmp(pinned, pageable, size);
    failed |= (int)cu.cuMemFreeHost(pinned);
    failed |= (int)cu.cuMemFree_v2(device);
    free(pageable);
    free(back);
    return failed;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 2 ? argv[1] : "";
    const size_t size = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    void *block = NULL;
    CUdeviceptr device = 0;
    int result = 2;
    if (!size)
        return result;
    start();
    if (strcmp(mode, "clean") == 0) {
        result = copies(size);
    } else if (strcmp(mode, "copy") == 0) {
        char *pageable = calloc(1, 2 * size);
        result = (int)cu.cuMemAlloc_v2(&device, size);
        result = (int)cu.cuMemcpyHtoD_v2(device, pageable, 2 * size);
    } else if (cu.cuMemHostAlloc(&block, size, 0) == 0) {
        memset(block, 1, size);
        uint64_t at = (uint64_t)(uintptr_t)block;
        if (strcmp(mode, "oob") == 0)
            result = poke(at + size);
        else if (strcmp(mode, "far") == 0)
            result = poke(64);
        else if (strcmp(mode, "uaf") == 0)
            result = cu.cuMemFreeHost(block) ? 3 : poke(at);
        else if (strcmp(mode, "free") == 0)
            result = (int)cu.cuMemFreeHost(block) | (int)cu.cuMemFreeHost(block);
    }
    printf("%s %zu -> %d\n", mode, size, result);
    return 0;
}
