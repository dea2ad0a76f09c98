/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of the remaining calls that put something on a stream: copies of arrays, batches of
 * 3D copies, decompression, and calls by which other libraries and devices wait for the stream, or it for them.
 */
#include "preload/hook/driver_call.h"

GF_SUBMIT_BLOCKING(cuMemcpyDtoA_v2, gf_work_kernel, (CUarray)dstArray, (size_t)dstOffset,
                   (CUdeviceptr)srcDevice, (size_t)ByteCount);
GF_SUBMIT_BLOCKING(cuMemcpyAtoD_v2, gf_work_kernel, (CUdeviceptr)dstDevice, (CUarray)srcArray,
                   (size_t)srcOffset, (size_t)ByteCount);
GF_SUBMIT_BLOCKING(cuMemcpyAtoA_v2, gf_work_kernel, (CUarray)dstArray, (size_t)dstOffset,
                   (CUarray)srcArray, (size_t)srcOffset, (size_t)ByteCount);
GF_SUBMIT_BLOCKING(cuMemcpyHtoA_v2, gf_work_copy, (CUarray)dstArray, (size_t)dstOffset,
                   (const void *)srcHost, (size_t)ByteCount);
GF_SUBMIT_BLOCKING(cuMemcpyAtoH_v2, gf_work_copy, (void *)dstHost, (CUarray)srcArray,
                   (size_t)srcOffset, (size_t)ByteCount);
GF_SUBMIT_STREAM_VISIBLE(cuMemcpyHtoAAsync_v2, hStream, gf_work_copy, (CUarray)dstArray,
                         (size_t)dstOffset, (const void *)srcHost, (size_t)ByteCount,
                         (CUstream)hStream);
GF_SUBMIT_STREAM_VISIBLE(cuMemcpyAtoHAsync_v2, hStream, gf_work_copy, (void *)dstHost,
                         (CUarray)srcArray, (size_t)srcOffset, (size_t)ByteCount,
                         (CUstream)hStream);

/* The version of CUDA 12.8 and 12.9, with failIdx, and that of CUDA 13. */
GF_SUBMIT_STREAM_VISIBLE(cuMemcpy3DBatchAsync, hStream, gf_work_copy, (size_t)numOps,
                         (CUDA_MEMCPY3D_BATCH_OP *)opList, (size_t *)failIdx,
                         (unsigned long long)flags, (CUstream)hStream);
GF_SUBMIT_STREAM_VISIBLE(cuMemcpy3DBatchAsync_v2, hStream, gf_work_copy, (size_t)numOps,
                         (CUDA_MEMCPY3D_BATCH_OP *)opList, (unsigned long long)flags,
                         (CUstream)hStream);

/* The functions of CUDA 13.2 for a single copy with attributes, and that of CUDA 13.5 for fabrics. */
GF_SUBMIT_STREAM_VISIBLE(cuMemcpyWithAttributesAsync, hStream, gf_work_copy, (CUdeviceptr)dst,
                         (CUdeviceptr)src, (size_t)size, (CUmemcpyAttributes *)attr,
                         (CUstream)hStream);
GF_SUBMIT_STREAM_VISIBLE(cuMemcpy3DWithAttributesAsync, hStream, gf_work_copy,
                         (CUDA_MEMCPY3D_BATCH_OP *)op, (unsigned long long)flags,
                         (CUstream)hStream);
GF_SUBMIT_STREAM_VISIBLE(cuFabricCpyBatchAsync, hStream, gf_work_copy, (size_t)numOps,
                         (CUDA_FABRIC_COPY_BATCH_OP *)opList, (unsigned long long)flags,
                         (CUstream)hStream);

GF_SUBMIT_STREAM(cuMemBatchDecompressAsync, stream, gf_work_kernel,
                 (CUmemDecompressParams *)paramsArray, (size_t)count, (unsigned)flags,
                 (size_t *)errorIndex, (CUstream)stream);

GF_SUBMIT_STREAM_VISIBLE(cuSignalExternalSemaphoresAsync, stream, gf_work_kernel,
                         (const CUexternalSemaphore *)extSemArray,
                         (const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *)paramsArray,
                         (unsigned)numExtSems, (CUstream)stream);
GF_SUBMIT_STREAM_VISIBLE(cuWaitExternalSemaphoresAsync, stream, gf_work_kernel,
                         (const CUexternalSemaphore *)extSemArray,
                         (const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *)paramsArray,
                         (unsigned)numExtSems, (CUstream)stream);
GF_SUBMIT_STREAM(cuGraphicsMapResources, hStream, gf_work_kernel, (unsigned)count,
                 (CUgraphicsResource *)resources, (CUstream)hStream);
GF_SUBMIT_STREAM(cuGraphicsUnmapResources, hStream, gf_work_kernel, (unsigned)count,
                 (CUgraphicsResource *)resources, (CUstream)hStream);

/* Deprecated launches. */
GF_SUBMIT_HOOK(cuLaunch, CU_STREAM_LEGACY, GF_SUBMIT, NULL, gf_work_kernel, (CUfunction)f);
GF_SUBMIT_HOOK(cuLaunchGrid, CU_STREAM_LEGACY, GF_SUBMIT, NULL, gf_work_kernel, (CUfunction)f,
               (int)grid_width, (int)grid_height);
GF_SUBMIT_HOOK(cuLaunchGridAsync, CU_STREAM_LEGACY, GF_SUBMIT, hStream, gf_work_kernel,
               (CUfunction)f, (int)grid_width, (int)grid_height, (CUstream)hStream);
