/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of blocks: those that are lines are linear copies. */
#include "hook/offer.h"
#include "hook/shapes.h"

/* The hook of `symbol`; `shape` is gf_shape_2d or gf_shape_3d. */
#define BLOCK(symbol, timed, shape, is_async, on, parameters, arguments)                           \
    CUresult gf_on_##symbol parameters                                                             \
    {                                                                                              \
        struct gf_offer offer;                                                                     \
        struct gf_copy_call call = {.async = is_async, .stream = on};                              \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        const bool line = shape(pCopy, &call);                                                     \
        return timed(symbol, call,                                                                 \
                     gf_offer(&offer, gf_hook_##symbol, &call, line)                               \
                         ? offer.result                                                            \
                         : gf_offer_end(&offer, real arguments));                                  \
    }                                                                                              \
    GF_ENTRY(symbol)

#define BLOCK_2D(symbol, none)                                                                     \
    BLOCK(symbol, GF_BLOCKING, gf_shape_2d, false, none, (const CUDA_MEMCPY2D *pCopy), (pCopy))
#define BLOCK_2D_ASYNC(symbol, none)                                                               \
    BLOCK(symbol, GF_AT_ONCE, gf_shape_2d, true, hStream ? hStream : none,                         \
          (const CUDA_MEMCPY2D *pCopy, CUstream hStream), (pCopy, hStream))
#define BLOCK_3D(symbol, none)                                                                     \
    BLOCK(symbol, GF_BLOCKING, gf_shape_3d, false, none, (const CUDA_MEMCPY3D *pCopy), (pCopy))
#define BLOCK_3D_ASYNC(symbol, none)                                                               \
    BLOCK(symbol, GF_AT_ONCE, gf_shape_3d, true, hStream ? hStream : none,                         \
          (const CUDA_MEMCPY3D *pCopy, CUstream hStream), (pCopy, hStream))

BLOCK_2D(cuMemcpy2D_v2, GF_IN_LEGACY);
BLOCK_2D(cuMemcpy2D_v2_ptds, GF_IN_THREAD);
BLOCK_2D(cuMemcpy2DUnaligned_v2, GF_IN_LEGACY);
BLOCK_2D(cuMemcpy2DUnaligned_v2_ptds, GF_IN_THREAD);
BLOCK_2D_ASYNC(cuMemcpy2DAsync_v2, GF_IN_LEGACY);
BLOCK_2D_ASYNC(cuMemcpy2DAsync_v2_ptsz, GF_IN_THREAD);
BLOCK_3D(cuMemcpy3D_v2, GF_IN_LEGACY);
BLOCK_3D(cuMemcpy3D_v2_ptds, GF_IN_THREAD);
BLOCK_3D_ASYNC(cuMemcpy3DAsync_v2, GF_IN_LEGACY);
BLOCK_3D_ASYNC(cuMemcpy3DAsync_v2_ptsz, GF_IN_THREAD);
