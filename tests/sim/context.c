/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: how they are created, made current on a thread, and ended. */
#include "sim.h"

#include <stdlib.h>

#define STACK 64

/*
 * Contexts are never freed, because a call with the handle of an ended context must return 709 and
 * not crash.
 */
struct sim_context *sim_contexts;
static bool handler_started;

static _Thread_local struct {
    struct sim_context *at[STACK];
    int depth;
} current;

CUresult sim_context_state(const struct sim_context *context)
{
    return !context        ? CUDA_ERROR_INVALID_CONTEXT
           : context->dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                           : CUDA_SUCCESS;
}

struct sim_context *sim_context_of(CUcontext handle)
{
    for (struct sim_context *c = sim_contexts; c; c = c->next)
        if ((void *)c == (void *)handle)
            return c;
    return NULL;
}

CUcontext sim_context_handle(const struct sim_context *context)
{
    return (CUcontext)(uintptr_t)context;
}

static struct sim_context *top(void)
{
    return current.depth ? current.at[current.depth - 1] : NULL;
}

CUresult sim_context_current(struct sim_context **ret)
{
    struct sim_context *context = top();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->dead)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *ret = context;
    return context->sticky;
}

/* The caller holds the lock. */
struct sim_context *sim_context_make(int device, unsigned flags, bool primary, unsigned api)
{
    struct sim_context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->device = device;
    context->flags = flags;
    context->primary = primary;
    context->api = api;
    context->id = sim_next_id();
    context->limit[CU_LIMIT_STACK_SIZE] = 1024;
    context->limit[CU_LIMIT_PRINTF_FIFO_SIZE] = 7 << 20;
    context->limit[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    context->limit[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    context->limit[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    context->limit[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    context->next = sim_contexts;
    sim_contexts = context;
    return context;
}

/* Called without the lock, because creating a thread may enter a preloaded library. */
static void start_handler(void)
{
    if (!__atomic_exchange_n(&handler_started, true, __ATOMIC_ACQ_REL))
        sim_start_thread("cuda-EvtHandlr");
}

/* The caller holds the lock. */
void sim_context_end(struct sim_context *context)
{
    sim_wait_context(context);
    for (struct sim_stream *stream = context->streams; stream; stream = stream->next)
        sim_capture_abandon(stream);
    context->dead = true;
    sim_context_forget(context);
}

static bool known(CUdevice device)
{
    return device >= 0 && device < sim_device_count;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice device)
{
    SIM_ENTER("cuDevicePrimaryCtxRetain");
    if (!ret)
        return CUDA_ERROR_INVALID_VALUE;
    if (!known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_device *d = &sim_devices[device];
    if (d->broken)
        return d->broken;
    pthread_mutex_lock(&sim_lock);
    if (!d->primary)
        d->primary = sim_context_make(device, d->primary_flags, true, 3020);
    d->retained += d->primary != NULL;
    *ret = sim_context_handle(d->primary);
    pthread_mutex_unlock(&sim_lock);
    if (!*ret)
        return CUDA_ERROR_OUT_OF_MEMORY;
    start_handler();
    return CUDA_SUCCESS;
}

static CUresult primary_release(CUdevice device, bool all)
{
    if (!known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_device *d = &sim_devices[device];
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&sim_lock);
    if (!all && d->retained == 0)
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (!all)
        d->retained--;
    if (!result && d->primary && (all || d->retained == 0)) {
        struct sim_context *context = d->primary;
        d->primary = NULL;
        d->broken = context->sticky; /* the device stays broken after the context has ended */
        sim_context_end(context);
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    SIM_ENTER("cuDevicePrimaryCtxRelease_v2");
    return primary_release(device, false);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    SIM_ENTER("cuDevicePrimaryCtxRelease");
    return primary_release(device, false);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    SIM_ENTER("cuDevicePrimaryCtxReset_v2");
    return primary_release(device, true);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    SIM_ENTER("cuDevicePrimaryCtxReset");
    return primary_release(device, true);
}

static CUresult primary_flags(CUdevice device, unsigned flags)
{
    if (!known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    sim_devices[device].primary_flags = flags;
    if (sim_devices[device].primary)
        sim_devices[device].primary->flags = flags;
    pthread_mutex_unlock(&sim_lock);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    SIM_ENTER("cuDevicePrimaryCtxSetFlags_v2");
    return primary_flags(device, flags);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
    SIM_ENTER("cuDevicePrimaryCtxSetFlags");
    return primary_flags(device, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    SIM_ENTER("cuDevicePrimaryCtxGetState");
    if (!known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = sim_devices[device].primary_flags;
    *active = sim_devices[device].primary != NULL;
    return CUDA_SUCCESS;
}

static CUresult create(CUcontext *ret, unsigned flags, CUdevice device, unsigned api)
{
    if (!ret || (flags & ~(unsigned)CU_CTX_FLAGS_MASK))
        return CUDA_ERROR_INVALID_VALUE;
    if (!known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (current.depth == STACK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&sim_lock);
    struct sim_context *context = sim_context_make(device, flags, false, api);
    pthread_mutex_unlock(&sim_lock);
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    current.at[current.depth++] = context;
    *ret = sim_context_handle(context);
    start_handler();
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *ret, unsigned flags, CUdevice device)
{
    SIM_ENTER("cuCtxCreate_v2");
    return create(ret, flags, device, 3020);
}

CUresult cuCtxCreate_v3(CUcontext *ret, CUexecAffinityParam *params, int count, unsigned flags,
                        CUdevice device)
{
    SIM_ENTER("cuCtxCreate_v3");
    return params || count ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY
                           : create(ret, flags, device, 3020);
}

CUresult cuCtxCreate_v4(CUcontext *ret, CUctxCreateParams *params, unsigned flags, CUdevice device)
{
    SIM_ENTER("cuCtxCreate_v4");
    return params && (params->execAffinityParams || params->cigParams)
               ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY
               : create(ret, flags, device, 3020);
}

static CUresult destroy(CUcontext handle)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&sim_lock);
    struct sim_context *context = sim_context_of(handle);
    if (!context || context->primary || context->green)
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (context->dead)
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    else
        sim_context_end(context);
    pthread_mutex_unlock(&sim_lock);
    if (!result && top() == context)
        current.depth--;
    return result;
}

CUresult cuCtxDestroy_v2(CUcontext handle)
{
    SIM_ENTER("cuCtxDestroy_v2");
    return handle ? destroy(handle) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxDestroy(CUcontext handle)
{
    SIM_ENTER("cuCtxDestroy");
    return destroy(handle);
}

/* Counts references, as documented. The function is deprecated since CUDA 4. */
CUresult cuCtxAttach(CUcontext *ret, unsigned flags)
{
    struct sim_context *context;
    SIM_ENTER("cuCtxAttach");
    if (!ret || flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_context_current(&context);
    if (result)
        return result;
    __atomic_add_fetch(&context->attached, 1, __ATOMIC_RELAXED);
    *ret = sim_context_handle(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext handle)
{
    struct sim_context *context = top();
    SIM_ENTER("cuCtxDetach");
    if (!context || sim_context_handle(context) != handle)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!__atomic_load_n(&context->attached, __ATOMIC_RELAXED))
        return destroy(handle);
    __atomic_sub_fetch(&context->attached, 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

static CUresult live(CUcontext handle, struct sim_context **ret)
{
    pthread_mutex_lock(&sim_lock);
    *ret = sim_context_of(handle);
    CUresult result = sim_context_state(*ret);
    pthread_mutex_unlock(&sim_lock);
    return result;
}

CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
    struct sim_context *context;
    SIM_ENTER("cuCtxPushCurrent_v2");
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = live(handle, &context);
    if (result)
        return result;
    if (current.depth == STACK)
        return CUDA_ERROR_INVALID_CONTEXT;
    current.at[current.depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext handle)
{
    SIM_ENTER("cuCtxPushCurrent");
    return cuCtxPushCurrent_v2(handle);
}

CUresult cuCtxPopCurrent_v2(CUcontext *ret)
{
    SIM_ENTER("cuCtxPopCurrent_v2");
    if (!current.depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    struct sim_context *context = current.at[--current.depth];
    if (ret)
        *ret = sim_context_handle(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *ret)
{
    SIM_ENTER("cuCtxPopCurrent");
    return cuCtxPopCurrent_v2(ret);
}

/* Replaces the top of the stack; NULL removes it. */
CUresult cuCtxSetCurrent(CUcontext handle)
{
    struct sim_context *context;
    SIM_ENTER("cuCtxSetCurrent");
    if (!handle) {
        current.depth -= current.depth > 0;
        return CUDA_SUCCESS;
    }
    CUresult result = live(handle, &context);
    /* The handle of a broken primary context stays valid; only work with it fails. */
    if (result && !(result == CUDA_ERROR_CONTEXT_IS_DESTROYED && context->primary))
        return result;
    current.depth += current.depth == 0;
    current.at[current.depth - 1] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *ret)
{
    SIM_ENTER("cuCtxGetCurrent");
    if (!ret)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = sim_context_handle(top());
    return CUDA_SUCCESS;
}
