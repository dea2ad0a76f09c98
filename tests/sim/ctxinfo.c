/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of a context. */
#include "sim.h"

CUresult cuCtxGetDevice(CUdevice *device)
{
    struct sim_context *context;
    SIM_ENTER("cuCtxGetDevice");
    CUresult result = sim_context_current(&context);
    if (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return result; /* a broken context still has its device */
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = context->device;
    return CUDA_SUCCESS;
}

/* Finds the context of a handle, or the current context for NULL. */
static CUresult named(CUcontext handle, struct sim_context **ret)
{
    if (!handle)
        return sim_context_current(ret);
    pthread_mutex_lock(&sim_lock);
    *ret = sim_context_of(handle);
    pthread_mutex_unlock(&sim_lock);
    return sim_context_state(*ret);
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext handle)
{
    struct sim_context *context;
    SIM_ENTER("cuCtxGetDevice_v2");
    CUresult result = named(handle, &context);
    if (result)
        return result;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned *flags)
{
    SIM_ENTER_CONTEXT("cuCtxGetFlags", context);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = context->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *id)
{
    struct sim_context *context;
    SIM_ENTER("cuCtxGetId");
    CUresult result = named(handle, &context);
    if (result)
        return result;
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = context->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned *version)
{
    struct sim_context *context;
    SIM_ENTER("cuCtxGetApiVersion");
    CUresult result = named(handle, &context);
    if (result)
        return result;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = context->api;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    SIM_ENTER_CONTEXT("cuCtxGetLimit", context);
    if (!value || (unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = context->limit[limit];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    SIM_ENTER_CONTEXT("cuCtxSetLimit", context);
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    context->limit[limit] = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *cache)
{
    SIM_ENTER_CONTEXT("cuCtxGetCacheConfig", context);
    if (!cache)
        return CUDA_ERROR_INVALID_VALUE;
    *cache = context->cache;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache cache)
{
    SIM_ENTER_CONTEXT("cuCtxSetCacheConfig", context);
    context->cache = cache;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    SIM_ENTER_CONTEXT("cuCtxGetStreamPriorityRange", context);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}
