/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of two- and three-dimensional blocks between linear memory. Arrays are not simulated. */
#include "copy.h"

/* Finds the address of an end and its side. Returns false for arrays. */
static bool end_of(CUmemorytype type, const void *host, CUdeviceptr device, uintptr_t *ret_at,
                   enum sim_side *ret_side)
{
    *ret_at = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device;
    *ret_side = type == CU_MEMORYTYPE_HOST     ? sim_host_side
                : type == CU_MEMORYTYPE_DEVICE ? sim_device_side
                                               : sim_any;
    return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE ||
           type == CU_MEMORYTYPE_UNIFIED;
}

static CUresult copy_2d(bool per_thread, const CUDA_MEMCPY2D *c, CUstream s, enum sim_when when)
{
    struct sim_block b = {.depth = 1};
    enum sim_side to, from;
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    if (!end_of(c->dstMemoryType, c->dstHost, c->dstDevice, &b.dst, &to) ||
        !end_of(c->srcMemoryType, c->srcHost, c->srcDevice, &b.src, &from))
        return CUDA_ERROR_NOT_SUPPORTED;
    b.width = c->WidthInBytes;
    b.height = c->Height;
    b.dst_pitch = c->dstPitch ? c->dstPitch : b.width;
    b.src_pitch = c->srcPitch ? c->srcPitch : b.width;
    if (b.dst_pitch < b.width + c->dstXInBytes || b.src_pitch < b.width + c->srcXInBytes)
        return CUDA_ERROR_INVALID_VALUE;
    b.dst += c->dstY * b.dst_pitch + c->dstXInBytes;
    b.src += c->srcY * b.src_pitch + c->srcXInBytes;
    return sim_copy(per_thread, s, &b, to, from, when);
}

static CUresult copy_3d(bool per_thread, const CUDA_MEMCPY3D *c, CUstream s, enum sim_when when)
{
    struct sim_block b;
    enum sim_side to, from;
    if (!c || c->srcLOD || c->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    if (!end_of(c->dstMemoryType, c->dstHost, c->dstDevice, &b.dst, &to) ||
        !end_of(c->srcMemoryType, c->srcHost, c->srcDevice, &b.src, &from))
        return CUDA_ERROR_NOT_SUPPORTED;
    b.width = c->WidthInBytes;
    b.height = c->Height;
    b.depth = c->Depth;
    b.dst_pitch = c->dstPitch ? c->dstPitch : b.width;
    b.src_pitch = c->srcPitch ? c->srcPitch : b.width;
    if (b.dst_pitch < b.width + c->dstXInBytes || b.src_pitch < b.width + c->srcXInBytes)
        return CUDA_ERROR_INVALID_VALUE;
    if ((c->dstHeight && c->dstHeight < b.height + c->dstY) ||
        (c->srcHeight && c->srcHeight < b.height + c->srcY))
        return CUDA_ERROR_INVALID_VALUE;
    b.dst_slice = b.dst_pitch * (c->dstHeight ? c->dstHeight : b.height);
    b.src_slice = b.src_pitch * (c->srcHeight ? c->srcHeight : b.height);
    b.dst += c->dstZ * b.dst_slice + c->dstY * b.dst_pitch + c->dstXInBytes;
    b.src += c->srcZ * b.src_slice + c->srcY * b.src_pitch + c->srcXInBytes;
    return sim_copy(per_thread, s, &b, to, from, when);
}

static CUresult sync_2d(bool per_thread, const CUDA_MEMCPY2D *c)
{
    return copy_2d(per_thread, c, NULL, sim_at_once);
}

static CUresult async_2d(bool per_thread, const CUDA_MEMCPY2D *c, CUstream s)
{
    return copy_2d(per_thread, c, s, sim_queued);
}

static CUresult sync_3d(bool per_thread, const CUDA_MEMCPY3D *c)
{
    return copy_3d(per_thread, c, NULL, sim_at_once);
}

static CUresult async_3d(bool per_thread, const CUDA_MEMCPY3D *c, CUstream s)
{
    return copy_3d(per_thread, c, s, sim_queued);
}

SIM_TWINS(cuMemcpy2D_v2, _ptds, sync_2d, (const CUDA_MEMCPY2D *c), (c))
SIM_TWINS(cuMemcpy2DUnaligned_v2, _ptds, sync_2d, (const CUDA_MEMCPY2D *c), (c))
SIM_TWINS(cuMemcpy2DAsync_v2, _ptsz, async_2d, (const CUDA_MEMCPY2D *c, CUstream s), (c, s))
SIM_TWINS(cuMemcpy3D_v2, _ptds, sync_3d, (const CUDA_MEMCPY3D *c), (c))
SIM_TWINS(cuMemcpy3DAsync_v2, _ptsz, async_3d, (const CUDA_MEMCPY3D *c, CUstream s), (c, s))

/* The operands of a batch of 3D copies are pointers; an element has one byte. */
static struct sim_block block_of(const CUDA_MEMCPY3D_BATCH_OP *op)
{
    const size_t width = op->extent.width, to = op->dst.op.ptr.rowLength,
                 from = op->src.op.ptr.rowLength;
    struct sim_block b = {.dst = op->dst.op.ptr.ptr,
                          .src = op->src.op.ptr.ptr,
                          .width = width,
                          .height = op->extent.height,
                          .depth = op->extent.depth,
                          .dst_pitch = to ? to : width,
                          .src_pitch = from ? from : width};
    b.dst_slice =
        b.dst_pitch * (op->dst.op.ptr.layerHeight ? op->dst.op.ptr.layerHeight : b.height);
    b.src_slice =
        b.src_pitch * (op->src.op.ptr.layerHeight ? op->src.op.ptr.layerHeight : b.height);
    return b;
}

static CUresult batch_3d_v2(bool per_thread, size_t count, CUDA_MEMCPY3D_BATCH_OP *ops,
                            unsigned long long flags, CUstream s)
{
    struct sim_stream *stream;
    if (!count || !ops || flags || !s || s == CU_STREAM_LEGACY)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (ops[i].src.type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
            ops[i].dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER)
            return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = sim_batch_begin(s, per_thread, &stream);
    const bool begun = !result;
    for (size_t i = 0; i < count && !result; i++) {
        const struct sim_block b = block_of(&ops[i]);
        result = sim_copy(per_thread, s, &b, sim_any, sim_any, sim_in_order);
    }
    if (begun)
        sim_batch_end(stream);
    return result;
}

static CUresult batch_3d(bool per_thread, size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed,
                         unsigned long long flags, CUstream s)
{
    const CUresult result = batch_3d_v2(per_thread, count, ops, flags, s);
    if (result && failed)
        *failed = SIZE_MAX;
    return result;
}

SIM_TWINS(cuMemcpy3DBatchAsync, _ptsz, batch_3d,
          (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed, unsigned long long flags,
           CUstream s),
          (count, ops, failed, flags, s))
SIM_TWINS(cuMemcpy3DBatchAsync_v2, _ptsz, batch_3d_v2,
          (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream s),
          (count, ops, flags, s))

static CUresult with_attributes_3d(bool per_thread, CUDA_MEMCPY3D_BATCH_OP *op,
                                   unsigned long long flags, CUstream s)
{
    if (!op || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (op->src.type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
        op->dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER)
        return CUDA_ERROR_NOT_SUPPORTED;
    const struct sim_block b = block_of(op);
    return sim_copy(per_thread, s, &b, sim_any, sim_any, sim_in_order);
}

SIM_TWINS(cuMemcpy3DWithAttributesAsync, _ptsz, with_attributes_3d,
          (CUDA_MEMCPY3D_BATCH_OP * op, unsigned long long flags, CUstream s), (op, flags, s))

CUresult cuGraphAddMemcpyNode(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps,
                              size_t count, const CUDA_MEMCPY3D *c, CUcontext context)
{
    SIM_ENTER("cuGraphAddMemcpyNode");
    struct sim_block b;
    enum sim_side to, from;
    (void)context;
    if (!ret || !graph || !c || (count && !deps) || c->Height != 1 || c->Depth != 1 ||
        !end_of(c->dstMemoryType, c->dstHost, c->dstDevice, &b.dst, &to) ||
        !end_of(c->srcMemoryType, c->srcHost, c->srcDevice, &b.src, &from))
        return CUDA_ERROR_INVALID_VALUE;
    b = sim_line(b.dst + c->dstXInBytes, b.src + c->srcXInBytes, c->WidthInBytes);
    pthread_mutex_lock(&sim_lock);
    CUresult result =
        sim_graph_add_op(ret, graph, CU_GRAPH_NODE_TYPE_MEMCPY, sim_copy_op(&b, to, from));
    pthread_mutex_unlock(&sim_lock);
    return result;
}
