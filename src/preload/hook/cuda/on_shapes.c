/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of 2D and 3D copies. A contiguous block is handled as a linear copy. */
#include "preload/hook/cuda/copy_offload.h"
#include "preload/hook/cuda/linear_copy.h"

/* Defines the hook of `symbol`; `shape` is gf_linear_copy_2d or gf_linear_copy_3d. */
#define BLOCK(symbol, run, shape, is_async, on, parameters, arguments)                             \
    CUresult gf_on_##symbol parameters                                                             \
    {                                                                                              \
        struct gf_copy_offload offload;                                                            \
        struct gf_copy_call call = {gf_copy_any, is_async, .stream = on};                          \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        const bool linear = shape(pCopy, &call);                                                   \
        return run(symbol, call,                                                                   \
                   gf_copy_offload(&offload, gf_hook_##symbol, &call, linear)                      \
                       ? offload.result                                                            \
                       : gf_copy_offload_end(&offload, real arguments));                           \
    }                                                                                              \
    GF_ENTRY(symbol)

#define BLOCK_2D(symbol, null_stream)                                                              \
    BLOCK(symbol, GF_RUN_BLOCKING, gf_linear_copy_2d, false, null_stream,                          \
          (const CUDA_MEMCPY2D *pCopy), (pCopy))
#define BLOCK_2D_ASYNC(symbol, null_stream)                                                        \
    BLOCK(symbol, GF_RUN_ASYNC, gf_linear_copy_2d, true, hStream ? hStream : null_stream,          \
          (const CUDA_MEMCPY2D *pCopy, CUstream hStream), (pCopy, hStream))
#define BLOCK_3D(symbol, null_stream)                                                              \
    BLOCK(symbol, GF_RUN_BLOCKING, gf_linear_copy_3d, false, null_stream,                          \
          (const CUDA_MEMCPY3D *pCopy), (pCopy))
#define BLOCK_3D_ASYNC(symbol, null_stream)                                                        \
    BLOCK(symbol, GF_RUN_ASYNC, gf_linear_copy_3d, true, hStream ? hStream : null_stream,          \
          (const CUDA_MEMCPY3D *pCopy, CUstream hStream), (pCopy, hStream))

GF_BLOCKING_PAIR(BLOCK_2D, cuMemcpy2D_v2);
GF_BLOCKING_PAIR(BLOCK_2D, cuMemcpy2DUnaligned_v2);
GF_STREAM_PAIR(BLOCK_2D_ASYNC, cuMemcpy2DAsync_v2);
GF_BLOCKING_PAIR(BLOCK_3D, cuMemcpy3D_v2);
GF_STREAM_PAIR(BLOCK_3D_ASYNC, cuMemcpy3DAsync_v2);
