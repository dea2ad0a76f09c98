/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools and stream-ordered allocation: memory is allocated at once, and freed in stream
 * order.
 */
#include "sim.h"

#include <stdlib.h>

struct sim_pool {
    int device;
    uint64_t attribute[16];
};

static struct sim_pool *pool_new(int device)
{
    struct sim_pool *pool = calloc(1, sizeof *pool);
    if (pool) {
        pool->device = device;
        pool->attribute[CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = 1;
        pool->attribute[CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC] = 1;
        pool->attribute[CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES] = 1;
    }
    return pool;
}

static CUresult device_pool(CUmemoryPool *ret, CUdevice device, bool standard)
{
    if (!ret)
        return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= sim_device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_device *d = &sim_devices[device];
    pthread_mutex_lock(&sim_lock);
    if (!d->default_pool)
        d->default_pool = pool_new(device);
    struct sim_pool *pool = standard || !d->pool ? d->default_pool : d->pool;
    pthread_mutex_unlock(&sim_lock);
    *ret = (CUmemoryPool)pool;
    return pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *ret, CUdevice device)
{
    SIM_ENTER("cuDeviceGetDefaultMemPool");
    return device_pool(ret, device, true);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *ret, CUdevice device)
{
    SIM_ENTER("cuDeviceGetMemPool");
    return device_pool(ret, device, false);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    SIM_ENTER("cuDeviceSetMemPool");
    if (device < 0 || device >= sim_device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    sim_devices[device].pool = (struct sim_pool *)pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *ret, const CUmemPoolProps *props)
{
    SIM_ENTER("cuMemPoolCreate");
    if (!ret || !props)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = (CUmemoryPool)pool_new(props->location.id);
    return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    SIM_ENTER("cuMemPoolDestroy");
    free(pool);
    return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    SIM_ENTER("cuMemPoolTrimTo");
    (void)keep;
    return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool is_flag(CUmemPool_attribute what)
{
    return what <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute what, void *value)
{
    SIM_ENTER("cuMemPoolSetAttribute");
    struct sim_pool *pool = (struct sim_pool *)handle;
    if (!pool || !value || (unsigned)what >= 16)
        return CUDA_ERROR_INVALID_VALUE;
    pool->attribute[what] = is_flag(what) ? (uint64_t) * (int *)value : *(cuuint64_t *)value;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute what, void *value)
{
    SIM_ENTER("cuMemPoolGetAttribute");
    struct sim_pool *pool = (struct sim_pool *)handle;
    if (!pool || !value || (unsigned)what >= 16)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_flag(what))
        *(int *)value = (int)pool->attribute[what];
    else
        *(cuuint64_t *)value = pool->attribute[what];
    return CUDA_SUCCESS;
}

static void nothing(struct sim_op *op)
{
    (void)op;
}

static CUresult allocate(bool per_thread, CUdeviceptr *ret, size_t size, CUmemoryPool pool,
                         CUstream s)
{
    struct sim_stream *stream;
    struct sim_range *range;
    if (!ret)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_stream_enter(s, per_thread, &stream);
    if (result)
        return result;
    struct sim_context *context = stream->context;
    bool captured = stream->capture;
    result = stream->capture ? CUDA_SUCCESS : sim_unsafe();
    if (!result)
        result = sim_issue(stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC, sim_op_new(nothing, 0), NULL);
    pthread_mutex_unlock(&sim_lock);
    if (!result && size)
        result = sim_device_alloc(context, size, &range);
    if (!result && size) {
        range->pool = (struct sim_pool *)pool;
        range->captured = captured;
        *ret = range->start;
    } else if (!result) {
        *ret = 0;
    }
    return result;
}

static CUresult alloc_async(bool per_thread, CUdeviceptr *ret, size_t size, CUstream s)
{
    CUdevice device;
    CUmemoryPool pool;
    CUresult result = cuCtxGetDevice(&device);
    if (!result)
        result = device_pool(&pool, device, false);
    return result ? result : allocate(per_thread, ret, size, pool, s);
}

static CUresult alloc_from(bool per_thread, CUdeviceptr *ret, size_t size, CUmemoryPool pool,
                           CUstream s)
{
    return pool ? allocate(per_thread, ret, size, pool, s) : CUDA_ERROR_INVALID_VALUE;
}

static void give_back(struct sim_op *op)
{
    pthread_mutex_lock(&sim_lock);
    struct sim_range *range = sim_range_at(op->payload[0]);
    if (range)
        sim_device_free(range);
    pthread_mutex_unlock(&sim_lock);
}

static CUresult free_async(bool per_thread, CUdeviceptr pointer, CUstream s)
{
    struct sim_stream *stream;
    CUresult result = sim_stream_enter(s, per_thread, &stream);
    if (result)
        return result;
    struct sim_range *range = sim_range_at(pointer);
    if (pointer && (!range || range->start != pointer || range->kind != sim_device_memory ||
                    (stream->capture && !range->captured))) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (pointer) {
        struct sim_op *op = sim_op_new(give_back, sizeof op->payload[0]);
        op->payload[0] = pointer;
        result = sim_issue(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, op, NULL);
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

SIM_TWINS(cuMemAllocAsync, _ptsz, alloc_async, (CUdeviceptr * ret, size_t size, CUstream s),
          (ret, size, s))
SIM_TWINS(cuMemAllocFromPoolAsync, _ptsz, alloc_from,
          (CUdeviceptr * ret, size_t size, CUmemoryPool pool, CUstream s), (ret, size, pool, s))
SIM_TWINS(cuMemFreeAsync, _ptsz, free_async, (CUdeviceptr pointer, CUstream s), (pointer, s))
