/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of work that accesses only device memory: fills, and copies within or between devices.
 */
#include "preload/hook/cuda/submit.h"

#define FILL(symbol, null_stream, type)                                                            \
    GF_SUBMIT_HOOK(symbol, NULL, null_stream, gf_work_kernel,                                      \
                   (CUdeviceptr dstDevice, type value, size_t N), (dstDevice, value, N))
#define FILL_ASYNC(symbol, null_stream, type)                                                      \
    GF_SUBMIT_HOOK(symbol, hStream, null_stream, gf_work_kernel,                                   \
                   (CUdeviceptr dstDevice, type value, size_t N, CUstream hStream),                \
                   (dstDevice, value, N, hStream))
#define FILL_2D(symbol, null_stream, type)                                                         \
    GF_SUBMIT_HOOK(                                                                                \
        symbol, NULL, null_stream, gf_work_kernel,                                                 \
        (CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height),         \
        (dstDevice, dstPitch, value, Width, Height))
#define FILL_2D_ASYNC(symbol, null_stream, type)                                                   \
    GF_SUBMIT_HOOK(symbol, hStream, null_stream, gf_work_kernel,                                   \
                   (CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width,              \
                    size_t Height, CUstream hStream),                                              \
                   (dstDevice, dstPitch, value, Width, Height, hStream))

/*
 * Combine each macro for fills with each type of value. The results have the parameters that
 * GF_BLOCKING_PAIR and GF_STREAM_PAIR expect.
 */
#define D8(hook, symbol, stream) hook(symbol, stream, unsigned char)
#define D16(hook, symbol, stream) hook(symbol, stream, unsigned short)
#define D32(hook, symbol, stream) hook(symbol, stream, unsigned int)
#define FILL_D8(symbol, stream) D8(FILL, symbol, stream)
#define FILL_D16(symbol, stream) D16(FILL, symbol, stream)
#define FILL_D32(symbol, stream) D32(FILL, symbol, stream)
#define FILL_2D_D8(symbol, stream) D8(FILL_2D, symbol, stream)
#define FILL_2D_D16(symbol, stream) D16(FILL_2D, symbol, stream)
#define FILL_2D_D32(symbol, stream) D32(FILL_2D, symbol, stream)
#define FILL_D8_ASYNC(symbol, stream) D8(FILL_ASYNC, symbol, stream)
#define FILL_D16_ASYNC(symbol, stream) D16(FILL_ASYNC, symbol, stream)
#define FILL_D32_ASYNC(symbol, stream) D32(FILL_ASYNC, symbol, stream)
#define FILL_2D_D8_ASYNC(symbol, stream) D8(FILL_2D_ASYNC, symbol, stream)
#define FILL_2D_D16_ASYNC(symbol, stream) D16(FILL_2D_ASYNC, symbol, stream)
#define FILL_2D_D32_ASYNC(symbol, stream) D32(FILL_2D_ASYNC, symbol, stream)

GF_BLOCKING_PAIR(FILL_D8, cuMemsetD8_v2);
GF_BLOCKING_PAIR(FILL_D16, cuMemsetD16_v2);
GF_BLOCKING_PAIR(FILL_D32, cuMemsetD32_v2);
GF_BLOCKING_PAIR(FILL_2D_D8, cuMemsetD2D8_v2);
GF_BLOCKING_PAIR(FILL_2D_D16, cuMemsetD2D16_v2);
GF_BLOCKING_PAIR(FILL_2D_D32, cuMemsetD2D32_v2);
GF_STREAM_PAIR(FILL_D8_ASYNC, cuMemsetD8Async);
GF_STREAM_PAIR(FILL_D16_ASYNC, cuMemsetD16Async);
GF_STREAM_PAIR(FILL_D32_ASYNC, cuMemsetD32Async);
GF_STREAM_PAIR(FILL_2D_D8_ASYNC, cuMemsetD2D8Async);
GF_STREAM_PAIR(FILL_2D_D16_ASYNC, cuMemsetD2D16Async);
GF_STREAM_PAIR(FILL_2D_D32_ASYNC, cuMemsetD2D32Async);

/* A copy within a device counts as a kernel, because it does not use the link to the host. */
#define COPY_ON_DEVICE(symbol, null_stream)                                                        \
    GF_SUBMIT_HOOK(symbol, NULL, null_stream, gf_work_kernel,                                      \
                   (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount),               \
                   (dstDevice, srcDevice, ByteCount))
#define COPY_ON_DEVICE_ASYNC(symbol, null_stream)                                                  \
    GF_SUBMIT_HOOK(                                                                                \
        symbol, hStream, null_stream, gf_work_kernel,                                              \
        (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),        \
        (dstDevice, srcDevice, ByteCount, hStream))
#define COPY_TO_PEER(symbol, null_stream)                                                          \
    GF_SUBMIT_HOOK(symbol, NULL, null_stream, gf_work_copy,                                        \
                   (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,            \
                    CUcontext srcContext, size_t ByteCount),                                       \
                   (dstDevice, dstContext, srcDevice, srcContext, ByteCount))
#define COPY_TO_PEER_ASYNC(symbol, null_stream)                                                    \
    GF_SUBMIT_HOOK(symbol, hStream, null_stream, gf_work_copy,                                     \
                   (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,            \
                    CUcontext srcContext, size_t ByteCount, CUstream hStream),                     \
                   (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream))
#define BLOCK_TO_PEER(symbol, null_stream)                                                         \
    GF_SUBMIT_HOOK(symbol, NULL, null_stream, gf_work_copy, (const CUDA_MEMCPY3D_PEER *pCopy),     \
                   (pCopy))
#define BLOCK_TO_PEER_ASYNC(symbol, null_stream)                                                   \
    GF_SUBMIT_HOOK(symbol, hStream, null_stream, gf_work_copy,                                     \
                   (const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream), (pCopy, hStream))

GF_BLOCKING_PAIR(COPY_ON_DEVICE, cuMemcpyDtoD_v2);
GF_STREAM_PAIR(COPY_ON_DEVICE_ASYNC, cuMemcpyDtoDAsync_v2);
GF_BLOCKING_PAIR(COPY_TO_PEER, cuMemcpyPeer);
GF_STREAM_PAIR(COPY_TO_PEER_ASYNC, cuMemcpyPeerAsync);
GF_BLOCKING_PAIR(BLOCK_TO_PEER, cuMemcpy3DPeer);
GF_STREAM_PAIR(BLOCK_TO_PEER_ASYNC, cuMemcpy3DPeerAsync);
