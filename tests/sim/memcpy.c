/* SPDX-License-Identifier: Apache-2.0 */
/* The functions for one-dimensional copies, and the batch. */
#include "copy.h"

#define LINE(name, suffix, dst_type, src_type, to, from)                                           \
    static CUresult name##_work(bool per_thread, dst_type dst, src_type src, size_t size)          \
    {                                                                                              \
        struct sim_block block = sim_line((uintptr_t)dst, (uintptr_t)src, size);                   \
        return sim_copy(per_thread, NULL, &block, to, from, sim_at_once);                          \
    }                                                                                              \
    SIM_TWINS(name, suffix, name##_work, (dst_type dst, src_type src, size_t size),                \
              (dst, src, size))

#define LINE_ASYNC(name, dst_type, src_type, to, from)                                             \
    static CUresult name##_work(bool per_thread, dst_type dst, src_type src, size_t size,          \
                                CUstream s)                                                        \
    {                                                                                              \
        struct sim_block block = sim_line((uintptr_t)dst, (uintptr_t)src, size);                   \
        return sim_copy(per_thread, s, &block, to, from, sim_queued);                              \
    }                                                                                              \
    SIM_TWINS(name, _ptsz, name##_work, (dst_type dst, src_type src, size_t size, CUstream s),     \
              (dst, src, size, s))

LINE(cuMemcpy, _ptds, CUdeviceptr, CUdeviceptr, sim_any, sim_any)
LINE(cuMemcpyHtoD_v2, _ptds, CUdeviceptr, const void *, sim_device_side, sim_host_side)
LINE(cuMemcpyDtoH_v2, _ptds, void *, CUdeviceptr, sim_host_side, sim_device_side)
LINE(cuMemcpyDtoD_v2, _ptds, CUdeviceptr, CUdeviceptr, sim_device_side, sim_device_side)
LINE_ASYNC(cuMemcpyAsync, CUdeviceptr, CUdeviceptr, sim_any, sim_any)
LINE_ASYNC(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, sim_device_side, sim_host_side)
LINE_ASYNC(cuMemcpyDtoHAsync_v2, void *, CUdeviceptr, sim_host_side, sim_device_side)
LINE_ASYNC(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, sim_device_side, sim_device_side)

static CUresult peer(bool per_thread, CUdeviceptr dst, CUcontext to, CUdeviceptr src,
                     CUcontext from, size_t size)
{
    struct sim_block block = sim_line(dst, src, size);
    (void)to, (void)from;
    return sim_copy(per_thread, NULL, &block, sim_device_side, sim_device_side, sim_at_once);
}

static CUresult peer_async(bool per_thread, CUdeviceptr dst, CUcontext to, CUdeviceptr src,
                           CUcontext from, size_t size, CUstream s)
{
    struct sim_block block = sim_line(dst, src, size);
    (void)to, (void)from;
    return sim_copy(per_thread, s, &block, sim_device_side, sim_device_side, sim_queued);
}

SIM_TWINS(cuMemcpyPeer, _ptds, peer,
          (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t size),
          (dst, to, src, from, size))
SIM_TWINS(cuMemcpyPeerAsync, _ptsz, peer_async,
          (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t size, CUstream s),
          (dst, to, src, from, size, s))

static enum sim_when when(const CUmemcpyAttributes *attributes)
{
    switch (attributes->srcAccessOrder) {
    case CU_MEMCPY_SRC_ACCESS_ORDER_STREAM:
        return sim_in_order;
    case CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL:
        return sim_before_return;
    default:
        return sim_whenever;
    }
}

static CUresult with_attributes(bool per_thread, CUdeviceptr dst, CUdeviceptr src, size_t size,
                                CUmemcpyAttributes *attributes, CUstream s)
{
    const struct sim_block block = sim_line(dst, src, size);
    return attributes ? sim_copy(per_thread, s, &block, sim_any, sim_any, when(attributes))
                      : CUDA_ERROR_INVALID_VALUE;
}

SIM_TWINS(cuMemcpyWithAttributesAsync, _ptsz, with_attributes,
          (CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes *attributes,
           CUstream s),
          (dst, src, size, attributes, s))

/* Issues the members in the order of the arrays, although a driver may choose any order. */
static CUresult batch(bool per_thread, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                      size_t count, CUmemcpyAttributes *attrs, size_t *first, size_t kinds,
                      CUstream s)
{
    if (!dsts || !srcs || !sizes || !count || !attrs || !first || !kinds || kinds > count || !s ||
        s == CU_STREAM_LEGACY || first[0] != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_stream *stream;
    CUresult result = sim_batch_begin(s, per_thread, &stream);
    const bool begun = !result;
    for (size_t i = 0, kind = 0; i < count && !result; i++) {
        kind += kind + 1 < kinds && first[kind + 1] == i;
        struct sim_block block = sim_line(dsts[i], srcs[i], sizes[i]);
        result = sizes[i] ? sim_copy(per_thread, s, &block, sim_any, sim_any, when(&attrs[kind]))
                          : CUDA_ERROR_INVALID_VALUE;
    }
    if (begun)
        sim_batch_end(stream);
    return result;
}

static CUresult batch_v1(bool per_thread, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                         size_t count, CUmemcpyAttributes *attrs, size_t *first, size_t kinds,
                         size_t *failed, CUstream s)
{
    CUresult result = batch(per_thread, dsts, srcs, sizes, count, attrs, first, kinds, s);
    if (result && failed)
        *failed = SIZE_MAX;
    return result;
}

SIM_TWINS(cuMemcpyBatchAsync, _ptsz, batch_v1,
          (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
           CUmemcpyAttributes *attrs, size_t *first, size_t kinds, size_t *failed, CUstream s),
          (dsts, srcs, sizes, count, attrs, first, kinds, failed, s))
SIM_TWINS(cuMemcpyBatchAsync_v2, _ptsz, batch,
          (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
           CUmemcpyAttributes *attrs, size_t *first, size_t kinds, CUstream s),
          (dsts, srcs, sizes, count, attrs, first, kinds, s))
