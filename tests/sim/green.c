/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts, as the documentation describes them: each holds its device's primary context, and
 * is itself a context that can be current. They have no resources, so any description is accepted.
 */
#include "sim.h"

static struct sim_context *context_of(CUgreenCtx green)
{
    struct sim_context *context = sim_context_of((CUcontext)green);
    return context && context->green ? context : NULL;
}

CUresult cuGreenCtxCreate(CUgreenCtx *ret, CUdevResourceDesc description, CUdevice device,
                          unsigned flags)
{
    CUcontext primary;
    SIM_ENTER("cuGreenCtxCreate");
    if (!ret || !description || flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cuDevicePrimaryCtxRetain(&primary, device);
    if (result)
        return result;
    pthread_mutex_lock(&sim_lock);
    struct sim_context *context = sim_context_make(device, 0, false, 3020);
    if (context)
        context->green = true;
    pthread_mutex_unlock(&sim_lock);
    *ret = (CUgreenCtx)context;
    return context ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult live(CUgreenCtx green, struct sim_context **ret)
{
    *ret = context_of(green);
    return sim_context_state(*ret);
}

CUresult cuCtxFromGreenCtx(CUcontext *ret, CUgreenCtx green)
{
    struct sim_context *context;
    SIM_ENTER("cuCtxFromGreenCtx");
    if (!ret)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    CUresult result = live(green, &context);
    pthread_mutex_unlock(&sim_lock);
    if (!result)
        *ret = sim_context_handle(context);
    return result;
}

CUresult cuGreenCtxStreamCreate(CUstream *ret, CUgreenCtx green, unsigned flags, int priority)
{
    struct sim_context *context;
    SIM_ENTER("cuGreenCtxStreamCreate");
    if (!ret || flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    CUresult result = live(green, &context);
    *ret = result ? NULL : (CUstream)sim_stream_make(context, flags, priority);
    pthread_mutex_unlock(&sim_lock);
    return result || *ret ? result : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    struct sim_context *context;
    SIM_ENTER("cuGreenCtxDestroy");
    pthread_mutex_lock(&sim_lock);
    CUresult result = live(green, &context);
    if (!result)
        sim_context_end(context);
    pthread_mutex_unlock(&sim_lock);
    return result ? result : cuDevicePrimaryCtxRelease_v2(context->device);
}

void sim_green_of(CUcontext handle, CUcontext *ret, CUgreenCtx *ret_green)
{
    pthread_mutex_lock(&sim_lock);
    struct sim_context *context = context_of((CUgreenCtx)handle);
    if (ret_green)
        *ret_green = (CUgreenCtx)context;
    *ret = context ? sim_context_handle(sim_devices[context->device].primary) : handle;
    pthread_mutex_unlock(&sim_lock);
}
