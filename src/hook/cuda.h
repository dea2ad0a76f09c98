/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's own functions, typed by cuda.h itself and listed by hooks.def. */
#ifndef GF_HOOK_CUDA_H
#define GF_HOOK_CUDA_H

/* All versions of each entry under their exported names, none renamed by macros. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

/* What the headers of CUDA 12.8 and 13 brought. */
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
CUresult CUDAAPI cuMemcpyBatchAsync_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                         size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                                         size_t numAttrs, size_t *failIdx, CUstream hStream);
#endif
#if CUDA_VERSION < 13000
CUresult CUDAAPI cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                       size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                                       size_t numAttrs, CUstream hStream);
CUresult CUDAAPI cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                            size_t count, CUmemcpyAttributes *attrs,
                                            size_t *attrsIdxs, size_t numAttrs, CUstream hStream);
#endif

/* Exported by some drivers (not by 580), declared by no header: the per-thread twin. */
CUresult CUDAAPI cuGetProcAddress_v2_ptsz(const char *symbol, void **pfn, int cudaVersion,
                                          cuuint64_t flags,
                                          CUdriverProcAddressQueryResult *symbolStatus);

/* A member is NULL where the installed driver has no such entry. */
struct gf_cuda {
#define GF_CU(symbol) __typeof__(symbol) *symbol;
#define GF_CU_USE(symbol) __typeof__(symbol) *symbol;
#include "hook/hooks.def"
};

#endif
