/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of linear copies between host and device. Large copies are offered to the engine, which
 * keeps the driver's semantics. Small copies, and copies that the engine declines, go to the driver
 * with the caller's arguments.
 *
 * The macro COPY creates the names gf_on_<symbol>. So if you search for the name of a driver
 * function, you find it in the list at the end of the file.
 */
#include "preload/hook/cuda/copy_offload.h"

/*
 * Defines the hook of `symbol` from its parameters, the arguments for the driver, and the values of
 * the members of gf_copy_call.
 */
#define COPY(symbol, run, parameters, arguments, ...)                                              \
    CUresult gf_on_##symbol parameters                                                             \
    {                                                                                              \
        struct gf_copy_offload offload;                                                            \
        const struct gf_copy_call call = {__VA_ARGS__};                                            \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        return run(symbol, call,                                                                   \
                   gf_copy_offload(&offload, gf_hook_##symbol, &call, true)                        \
                       ? offload.result                                                            \
                       : gf_copy_offload_end(&offload, real arguments));                           \
    }                                                                                              \
    GF_ENTRY(symbol)

#define COPY_ANY(symbol, null_stream)                                                              \
    COPY(symbol, GF_RUN_BLOCKING, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount),            \
         (dst, src, ByteCount), gf_copy_any, false, dst, src, ByteCount, null_stream)

#define COPY_ANY_ASYNC(symbol, null_stream)                                                        \
    COPY(symbol, GF_RUN_ASYNC,                                                                     \
         (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream),                   \
         (dst, src, ByteCount, hStream), gf_copy_any, true, dst, src, ByteCount,                   \
         hStream ? hStream : null_stream)

#define COPY_H2D(symbol, null_stream)                                                              \
    COPY(symbol, GF_RUN_BLOCKING, (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount),  \
         (dstDevice, srcHost, ByteCount), gf_copy_h2d, false, dstDevice, (uintptr_t)srcHost,       \
         ByteCount, null_stream)

#define COPY_H2D_ASYNC(symbol, null_stream)                                                        \
    COPY(symbol, GF_RUN_ASYNC,                                                                     \
         (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream),         \
         (dstDevice, srcHost, ByteCount, hStream), gf_copy_h2d, true, dstDevice,                   \
         (uintptr_t)srcHost, ByteCount, hStream ? hStream : null_stream)

#define COPY_D2H(symbol, null_stream)                                                              \
    COPY(symbol, GF_RUN_BLOCKING, (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount),        \
         (dstHost, srcDevice, ByteCount), gf_copy_d2h, false, (uintptr_t)dstHost, srcDevice,       \
         ByteCount, null_stream)

#define COPY_D2H_ASYNC(symbol, null_stream)                                                        \
    COPY(symbol, GF_RUN_ASYNC,                                                                     \
         (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),               \
         (dstHost, srcDevice, ByteCount, hStream), gf_copy_d2h, true, (uintptr_t)dstHost,          \
         srcDevice, ByteCount, hStream ? hStream : null_stream)

GF_BLOCKING_PAIR(COPY_ANY, cuMemcpy);
GF_STREAM_PAIR(COPY_ANY_ASYNC, cuMemcpyAsync);
GF_BLOCKING_PAIR(COPY_H2D, cuMemcpyHtoD_v2);
GF_STREAM_PAIR(COPY_H2D_ASYNC, cuMemcpyHtoDAsync_v2);
GF_BLOCKING_PAIR(COPY_D2H, cuMemcpyDtoH_v2);
GF_STREAM_PAIR(COPY_D2H_ASYNC, cuMemcpyDtoHAsync_v2);
