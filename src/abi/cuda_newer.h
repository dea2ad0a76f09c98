/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Includes the toolkit's cuda.h, which must be 11.8 or later, and declares what only newer versions
 * of cuda.h declare. The driver on the user's machine may have these functions even if the toolkit
 * that builds this library does not know them. Only abi/cuda.h includes this file.
 */
#pragma once

/*
 * Makes cuda.h declare every version of a function under its exported name, and define no macro
 * that renames a function.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#if CUDA_VERSION < 12000
typedef enum {
    CU_GET_PROC_ADDRESS_SUCCESS = 0,
    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
    CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
} CUdriverProcAddressQueryResult;
CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
                                     cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *symbolStatus);
CUresult CUDAAPI cuCtxGetId(CUcontext ctx, unsigned long long *ctxId);
#endif
#if CUDA_VERSION < 12010
enum { CU_CTX_SYNC_MEMOPS = 0x80 };
#endif
#if CUDA_VERSION < 12020
#define CU_DEVICE_ATTRIBUTE_MPS_ENABLED ((CUdevice_attribute)133)
#define CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID ((CUdevice_attribute)134)
#endif
#if CUDA_VERSION < 12030
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                             const CUgraphNode *dependencies,
                                             const CUgraphEdgeData *dependencyData,
                                             size_t numDependencies, CUstreamCaptureMode mode);
__typeof__(cuStreamBeginCaptureToGraph) cuStreamBeginCaptureToGraph_ptsz;
#endif
#if CUDA_VERSION < 12040
typedef struct CUgreenCtx_st *CUgreenCtx;
CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx hCtx);
CUresult CUDAAPI cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx);
#endif
#if CUDA_VERSION < 12050
typedef struct CUctxCreateParams_st CUctxCreateParams;
CUresult CUDAAPI cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned flags,
                                CUdevice dev);
CUresult CUDAAPI cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx);
__typeof__(cuStreamGetCtx_v2) cuStreamGetCtx_v2_ptsz;
#endif
#if CUDA_VERSION < 12060
typedef struct CUmemDecompressParams_st CUmemDecompressParams;
CUresult CUDAAPI cuMemBatchDecompressAsync(CUmemDecompressParams *paramsArray, size_t count,
                                           unsigned flags, size_t *errorIndex, CUstream stream);
__typeof__(cuMemBatchDecompressAsync) cuMemBatchDecompressAsync_ptsz;
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
typedef struct CUDA_MEMCPY3D_BATCH_OP_st CUDA_MEMCPY3D_BATCH_OP;
CUresult CUDAAPI cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                                      size_t *failIdx, unsigned long long flags, CUstream hStream);
__typeof__(cuMemcpy3DBatchAsync) cuMemcpy3DBatchAsync_ptsz;
#endif
#if CUDA_VERSION < 13000
CUresult CUDAAPI cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                       size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                                       size_t numAttrs, CUstream hStream);
__typeof__(cuMemcpyBatchAsync_v2) cuMemcpyBatchAsync_v2_ptsz;
CUresult CUDAAPI cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                                         unsigned long long flags, CUstream hStream);
__typeof__(cuMemcpy3DBatchAsync_v2) cuMemcpy3DBatchAsync_v2_ptsz;
#endif
#if CUDA_VERSION < 13010
CUresult CUDAAPI cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void *userData,
                                     unsigned int syncMode);
__typeof__(cuLaunchHostFunc_v2) cuLaunchHostFunc_v2_ptsz;
#endif
#if CUDA_VERSION < 13020
CUresult CUDAAPI cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size,
                                             CUmemcpyAttributes *attr, CUstream hStream);
CUresult CUDAAPI cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
                                               CUstream hStream);
__typeof__(cuMemcpyWithAttributesAsync) cuMemcpyWithAttributesAsync_ptsz;
__typeof__(cuMemcpy3DWithAttributesAsync) cuMemcpy3DWithAttributesAsync_ptsz;
typedef struct CUstreamCigCaptureParams_st CUstreamCigCaptureParams;
CUresult CUDAAPI cuStreamBeginCaptureToCig(CUstream hStream,
                                           CUstreamCigCaptureParams *streamCigCaptureParams);
CUresult CUDAAPI cuStreamEndCaptureToCig(CUstream hStream);
__typeof__(cuStreamBeginCaptureToCig) cuStreamBeginCaptureToCig_ptsz;
__typeof__(cuStreamEndCaptureToCig) cuStreamEndCaptureToCig_ptsz;
#endif
#if CUDA_VERSION < 13030
#define CUDA_ERROR_GRAPH_RECAPTURE_FAILURE ((CUresult)918)
typedef CUresult(CUDA_CB *CUgraphRecaptureCallback)(void *data, CUgraphNode node,
                                                    const void *originalParams,
                                                    const void *recaptureParams, int status);
CUresult CUDAAPI cuStreamBeginRecaptureToGraph(CUstream hStream, CUstreamCaptureMode mode,
                                               CUgraph hGraph,
                                               CUgraphRecaptureCallback callbackFunc,
                                               void *userData);
__typeof__(cuStreamBeginRecaptureToGraph) cuStreamBeginRecaptureToGraph_ptsz;
#endif
#if CUDA_VERSION < 13050
typedef struct CUDA_FABRIC_COPY_BATCH_OP_st CUDA_FABRIC_COPY_BATCH_OP;
CUresult CUDAAPI cuFabricCpyBatchAsync(size_t numOps, CUDA_FABRIC_COPY_BATCH_OP *opList,
                                       unsigned long long flags, CUstream hStream);
__typeof__(cuFabricCpyBatchAsync) cuFabricCpyBatchAsync_ptsz;
#endif
