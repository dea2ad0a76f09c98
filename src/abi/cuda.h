/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's own functions, typed by cuda.h itself and listed by hooks.def. */
#ifndef GF_ABI_CUDA_H
#define GF_ABI_CUDA_H

/* Declares all versions of each function by their exported names, without renaming macros. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

/* Declarations that newer headers contain. */
#if CUDA_VERSION < 12030
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                             const CUgraphNode *dependencies,
                                             const CUgraphEdgeData *dependencyData,
                                             size_t numDependencies, CUstreamCaptureMode mode);
__typeof__(cuStreamBeginCaptureToGraph) cuStreamBeginCaptureToGraph_ptsz;
#endif
#if CUDA_VERSION < 12080
enum {
    CU_MEMCPY_SRC_ACCESS_ORDER_STREAM = 1,
    CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL = 2,
    CU_MEMCPY_SRC_ACCESS_ORDER_ANY = 3,
    CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE = 1,
};
typedef struct {
    unsigned srcAccessOrder;
    CUmemLocation srcLocHint, dstLocHint;
    unsigned flags;
} CUmemcpyAttributes;
CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                    size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                                    size_t numAttrs, size_t *failIdx, CUstream hStream);
__typeof__(cuMemcpyBatchAsync) cuMemcpyBatchAsync_ptsz;
#endif
#if CUDA_VERSION < 13000
CUresult CUDAAPI cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                       size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                                       size_t numAttrs, CUstream hStream);
__typeof__(cuMemcpyBatchAsync_v2) cuMemcpyBatchAsync_v2_ptsz;
#endif

/* Some drivers export it (580 does not); no header declares it. */
__typeof__(cuGetProcAddress_v2) cuGetProcAddress_v2_ptsz;

/* A member is NULL where the installed driver lacks the function. */
struct gf_cuda {
#define GF_CU(symbol) __typeof__(symbol) *symbol;
#define GF_CU_USE(symbol) __typeof__(symbol) *symbol;
#include "abi/hooks.def"
};

#endif
