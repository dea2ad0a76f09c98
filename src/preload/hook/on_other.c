/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of the remaining calls that put something on a stream: copies of arrays, batches of
 * 3D copies, decompression, and calls by which other libraries and devices wait for the stream, or it for them.
 */
#include "preload/hook/driver_call.h"

#define DEVICE_TO_ARRAY(symbol, null_stream)                                                       \
    GF_SUBMIT_HOOK(symbol, NULL, null_stream, gf_work_kernel,                                      \
                   (CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount),  \
                   (dstArray, dstOffset, srcDevice, ByteCount))
#define ARRAY_TO_DEVICE(symbol, null_stream)                                                       \
    GF_SUBMIT_HOOK(symbol, NULL, null_stream, gf_work_kernel,                                      \
                   (CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount),  \
                   (dstDevice, srcArray, srcOffset, ByteCount))
#define ARRAY_TO_ARRAY(symbol, null_stream)                                                        \
    GF_SUBMIT_HOOK(symbol, NULL, null_stream, gf_work_kernel,                                      \
                   (CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,        \
                    size_t ByteCount),                                                             \
                   (dstArray, dstOffset, srcArray, srcOffset, ByteCount))
#define HOST_TO_ARRAY(symbol, null_stream)                                                         \
    GF_SUBMIT_HOOK(symbol, NULL, null_stream, gf_work_copy,                                        \
                   (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount),    \
                   (dstArray, dstOffset, srcHost, ByteCount))
#define ARRAY_TO_HOST(symbol, null_stream)                                                         \
    GF_SUBMIT_HOOK(symbol, NULL, null_stream, gf_work_copy,                                        \
                   (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount),          \
                   (dstHost, srcArray, srcOffset, ByteCount))
#define HOST_TO_ARRAY_ASYNC(symbol, null_stream)                                                   \
    GF_SUBMIT_VISIBLE_HOOK(symbol, hStream, null_stream, gf_work_copy,                             \
                           (CUarray dstArray, size_t dstOffset, const void *srcHost,               \
                            size_t ByteCount, CUstream hStream),                                   \
                           (dstArray, dstOffset, srcHost, ByteCount, hStream))
#define ARRAY_TO_HOST_ASYNC(symbol, null_stream)                                                   \
    GF_SUBMIT_VISIBLE_HOOK(                                                                        \
        symbol, hStream, null_stream, gf_work_copy,                                                \
        (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream),   \
        (dstHost, srcArray, srcOffset, ByteCount, hStream))

GF_BLOCKING_PAIR(DEVICE_TO_ARRAY, cuMemcpyDtoA_v2);
GF_BLOCKING_PAIR(ARRAY_TO_DEVICE, cuMemcpyAtoD_v2);
GF_BLOCKING_PAIR(ARRAY_TO_ARRAY, cuMemcpyAtoA_v2);
GF_BLOCKING_PAIR(HOST_TO_ARRAY, cuMemcpyHtoA_v2);
GF_BLOCKING_PAIR(ARRAY_TO_HOST, cuMemcpyAtoH_v2);
GF_STREAM_PAIR(HOST_TO_ARRAY_ASYNC, cuMemcpyHtoAAsync_v2);
GF_STREAM_PAIR(ARRAY_TO_HOST_ASYNC, cuMemcpyAtoHAsync_v2);

/* The version of CUDA 12.8 and 12.9, with failIdx, and that of CUDA 13. */
#define BATCH_3D_V1(symbol, null_stream)                                                           \
    GF_SUBMIT_VISIBLE_HOOK(symbol, hStream, null_stream, gf_work_copy,                             \
                           (size_t numOps, CUDA_MEMCPY3D_BATCH_OP * opList, size_t * failIdx,      \
                            unsigned long long flags, CUstream hStream),                           \
                           (numOps, opList, failIdx, flags, hStream))
#define BATCH_3D_V2(symbol, null_stream)                                                           \
    GF_SUBMIT_VISIBLE_HOOK(symbol, hStream, null_stream, gf_work_copy,                             \
                           (size_t numOps, CUDA_MEMCPY3D_BATCH_OP * opList,                        \
                            unsigned long long flags, CUstream hStream),                           \
                           (numOps, opList, flags, hStream))

GF_STREAM_PAIR(BATCH_3D_V1, cuMemcpy3DBatchAsync);
GF_STREAM_PAIR(BATCH_3D_V2, cuMemcpy3DBatchAsync_v2);

/* The functions of CUDA 13.2 for a single copy with attributes, and that of CUDA 13.5 for fabrics. */
#define WITH_ATTRIBUTES(symbol, null_stream)                                                       \
    GF_SUBMIT_VISIBLE_HOOK(symbol, hStream, null_stream, gf_work_copy,                             \
                           (CUdeviceptr dst, CUdeviceptr src, size_t size,                         \
                            CUmemcpyAttributes * attr, CUstream hStream),                          \
                           (dst, src, size, attr, hStream))
#define WITH_ATTRIBUTES_3D(symbol, null_stream)                                                    \
    GF_SUBMIT_VISIBLE_HOOK(                                                                        \
        symbol, hStream, null_stream, gf_work_copy,                                                \
        (CUDA_MEMCPY3D_BATCH_OP * op, unsigned long long flags, CUstream hStream),                 \
        (op, flags, hStream))
#define FABRIC_BATCH(symbol, null_stream)                                                          \
    GF_SUBMIT_VISIBLE_HOOK(symbol, hStream, null_stream, gf_work_copy,                             \
                           (size_t numOps, CUDA_FABRIC_COPY_BATCH_OP * opList,                     \
                            unsigned long long flags, CUstream hStream),                           \
                           (numOps, opList, flags, hStream))

GF_STREAM_PAIR(WITH_ATTRIBUTES, cuMemcpyWithAttributesAsync);
GF_STREAM_PAIR(WITH_ATTRIBUTES_3D, cuMemcpy3DWithAttributesAsync);
GF_STREAM_PAIR(FABRIC_BATCH, cuFabricCpyBatchAsync);

#define DECOMPRESS(symbol, null_stream)                                                            \
    GF_SUBMIT_HOOK(symbol, stream, null_stream, gf_work_kernel,                                    \
                   (CUmemDecompressParams * paramsArray, size_t count, unsigned flags,             \
                    size_t *errorIndex, CUstream stream),                                          \
                   (paramsArray, count, flags, errorIndex, stream))

GF_STREAM_PAIR(DECOMPRESS, cuMemBatchDecompressAsync);

#define SIGNAL(symbol, null_stream)                                                                \
    GF_SUBMIT_VISIBLE_HOOK(symbol, stream, null_stream, gf_work_kernel,                            \
                           (const CUexternalSemaphore *extSemArray,                                \
                            const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *paramsArray,              \
                            unsigned numExtSems, CUstream stream),                                 \
                           (extSemArray, paramsArray, numExtSems, stream))
#define AWAIT(symbol, null_stream)                                                                 \
    GF_SUBMIT_VISIBLE_HOOK(symbol, stream, null_stream, gf_work_kernel,                            \
                           (const CUexternalSemaphore *extSemArray,                                \
                            const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray,                \
                            unsigned numExtSems, CUstream stream),                                 \
                           (extSemArray, paramsArray, numExtSems, stream))
#define GRAPHICS(symbol, null_stream)                                                              \
    GF_SUBMIT_HOOK(symbol, hStream, null_stream, gf_work_kernel,                                   \
                   (unsigned count, CUgraphicsResource *resources, CUstream hStream),              \
                   (count, resources, hStream))

GF_STREAM_PAIR(SIGNAL, cuSignalExternalSemaphoresAsync);
GF_STREAM_PAIR(AWAIT, cuWaitExternalSemaphoresAsync);
GF_STREAM_PAIR(GRAPHICS, cuGraphicsMapResources);
GF_STREAM_PAIR(GRAPHICS, cuGraphicsUnmapResources);

/* Deprecated launches. */
GF_SUBMIT_HOOK(cuLaunch, NULL, CU_STREAM_LEGACY, gf_work_kernel, (CUfunction f), (f));
GF_SUBMIT_HOOK(cuLaunchGrid, NULL, CU_STREAM_LEGACY, gf_work_kernel,
               (CUfunction f, int grid_width, int grid_height), (f, grid_width, grid_height));
GF_SUBMIT_HOOK(cuLaunchGridAsync, hStream, CU_STREAM_LEGACY, gf_work_kernel,
               (CUfunction f, int grid_width, int grid_height, CUstream hStream),
               (f, grid_width, grid_height, hStream));
