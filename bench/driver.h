/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the benches on the driver API: opens the driver by name, reads clocks, has a kernel that keeps
 * the GPU busy, and parses lines of words.
 */
#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "spin_ptx.h"

#define BENCH_CALLS(X)                                                                             \
    X(cuInit)                                                                                      \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuCtxSetCurrent)                                                                             \
    X(cuCtxSynchronize)                                                                            \
    X(cuMemAlloc_v2)                                                                               \
    X(cuMemFree_v2)                                                                                \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemFreeHost)                                                                               \
    X(cuMemHostRegister_v2)                                                                        \
    X(cuMemcpyHtoD_v2)                                                                             \
    X(cuMemcpyDtoH_v2)                                                                             \
    X(cuMemcpyHtoDAsync_v2)                                                                        \
    X(cuMemcpyDtoHAsync_v2)                                                                        \
    X(cuMemsetD8_v2)                                                                               \
    X(cuStreamCreate)                                                                              \
    X(cuStreamQuery)                                                                               \
    X(cuStreamSynchronize)                                                                         \
    X(cuEventCreate)                                                                               \
    X(cuEventRecord)                                                                               \
    X(cuEventQuery)                                                                                \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuLaunchKernel)

struct bench_driver {
#define BENCH_FIELD(name) __typeof__(name) *name;
    BENCH_CALLS(BENCH_FIELD)
#undef BENCH_FIELD
};

static struct bench_driver cu;
static CUcontext bench_context;

static inline void must(CUresult result, const char *what)
{
    if (result) {
        fprintf(stderr, "%s answered %d\n", what, (int)result);
        exit(1);
    }
}
#define MUST(call) must(call, #call)

static inline double seconds_now(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

/* Returns the CPU time of all threads of this process. */
static inline double cpu_seconds(void)
{
    return seconds_now(CLOCK_PROCESS_CPUTIME_ID);
}

static inline void open_driver(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(77);
    }
#define BENCH_LOAD(name)                                                                           \
    cu.name = (__typeof__(name) *)dlsym(handle, #name);                                            \
    if (!cu.name)                                                                                  \
        exit(77);
    BENCH_CALLS(BENCH_LOAD)
#undef BENCH_LOAD
}

static inline void open_device(void)
{
    MUST(cu.cuInit(0));
    MUST(cu.cuDevicePrimaryCtxRetain(&bench_context, 0));
    MUST(cu.cuCtxSetCurrent(bench_context));
}

/*
 * Returns a kernel that runs on every multiprocessor for the number of nanoseconds in its
 * parameter.
 */
static inline CUfunction spin_kernel(void)
{
    static CUmodule module;
    CUfunction function;
    if (!module)
        MUST(cu.cuModuleLoadData(&module, spin_ptx));
    MUST(cu.cuModuleGetFunction(&function, module, "spin"));
    return function;
}

static inline void spin(CUfunction function, CUstream stream, uint64_t ns)
{
    void *params[] = {&ns};
    MUST(cu.cuLaunchKernel(function, 132, 1, 1, 128, 1, 1, 0, stream, params, NULL));
}

/* Returns the value of `name=` in a line of words, or the fallback. */
static inline const char *word(const char *line, const char *name, const char *fallback)
{
    static _Thread_local char value[8][64];
    static _Thread_local unsigned turn;
    const size_t length = strlen(name);
    for (const char *at = line; at; at = strchr(at, ' ')) {
        at += strspn(at, " ");
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            char *out = value[turn++ % 8];
            snprintf(out, sizeof value[0], "%.*s", (int)strcspn(at + length + 1, " \n"),
                     at + length + 1);
            return out;
        }
    }
    return fallback;
}

static inline size_t number(const char *line, const char *name, size_t fallback)
{
    const char *text = word(line, name, NULL);
    return text ? strtoull(text, NULL, 10) : fallback;
}

#endif
