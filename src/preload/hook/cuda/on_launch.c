/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of launches of kernels, graphs and host functions. */
#include "preload/hook/cuda/submit.h"

#define KERNEL(symbol, null_stream)                                                                \
    GF_SUBMIT_HOOK(symbol, hStream, null_stream, gf_work_kernel,                                   \
                   (CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ,         \
                    unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ,                    \
                    unsigned sharedMemBytes, CUstream hStream, void **kernelParams, void **extra), \
                   (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,              \
                    sharedMemBytes, hStream, kernelParams, extra))
#define COOPERATIVE(symbol, null_stream)                                                           \
    GF_SUBMIT_HOOK(symbol, hStream, null_stream, gf_work_kernel,                                   \
                   (CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ,         \
                    unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ,                    \
                    unsigned sharedMemBytes, CUstream hStream, void **kernelParams),               \
                   (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,              \
                    sharedMemBytes, hStream, kernelParams))
#define KERNEL_EX(symbol, null_stream)                                                             \
    GF_SUBMIT_HOOK(                                                                                \
        symbol, config ? config->hStream : NULL, null_stream, gf_work_kernel,                      \
        (const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra),           \
        (config, f, kernelParams, extra))
#define HOST_FUNCTION(symbol, null_stream)                                                         \
    GF_SUBMIT_VISIBLE_HOOK(symbol, hStream, null_stream, gf_work_kernel,                           \
                           (CUstream hStream, CUhostFn fn, void *userData),                        \
                           (hStream, fn, userData))
#define CALLBACK(symbol, null_stream)                                                              \
    GF_SUBMIT_VISIBLE_HOOK(                                                                        \
        symbol, hStream, null_stream, gf_work_kernel,                                              \
        (CUstream hStream, CUstreamCallback callback, void *userData, unsigned flags),             \
        (hStream, callback, userData, flags))
#define GRAPH(symbol, null_stream)                                                                 \
    CUresult gf_on_##symbol(CUgraphExec hGraphExec, CUstream hStream)                              \
    {                                                                                              \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        gf_submissions_launch_graph(hGraphExec);                                                   \
        return GF_SUBMIT(hStream ? hStream : (null_stream), gf_work_kernel,                        \
                         real(hGraphExec, hStream));                                               \
    }                                                                                              \
    GF_ENTRY(symbol)

GF_STREAM_PAIR(KERNEL, cuLaunchKernel);
GF_STREAM_PAIR(KERNEL_EX, cuLaunchKernelEx);
GF_STREAM_PAIR(COOPERATIVE, cuLaunchCooperativeKernel);
GF_STREAM_PAIR(HOST_FUNCTION, cuLaunchHostFunc);
GF_STREAM_PAIR(CALLBACK, cuStreamAddCallback);
GF_STREAM_PAIR(GRAPH, cuGraphLaunch);
