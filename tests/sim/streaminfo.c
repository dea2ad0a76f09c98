/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of a stream. */
#include "sim.h"

enum what { flags_of, priority_of, context_of, id_of, device_of };

static CUresult get(bool per_thread, CUstream handle, enum what what, void *ret)
{
    struct sim_stream *stream;
    CUresult result = sim_stream_enter(handle, per_thread, &stream);
    if (result)
        return result;
    if ((what == flags_of || what == id_of) && stream->capture)
        result = sim_capture_refuses(stream); /* as the driver does */
    else if ((result = sim_capture_implicit(stream)) != CUDA_SUCCESS)
        ; /* measured on the driver for the context, and assumed for the others */
    else if (!ret)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (what == flags_of)
        *(unsigned *)ret = stream->flags;
    else if (what == priority_of)
        *(int *)ret = stream->priority;
    else if (what == context_of)
        *(CUcontext *)ret = sim_context_handle(stream->context);
    else if (what == id_of)
        *(unsigned long long *)ret = stream->id;
    else
        *(CUdevice *)ret = stream->context->device;
    pthread_mutex_unlock(&sim_lock);
    return result;
}

static CUresult get_flags(bool per_thread, CUstream handle, unsigned *ret)
{
    return get(per_thread, handle, flags_of, ret);
}

static CUresult get_priority(bool per_thread, CUstream handle, int *ret)
{
    return get(per_thread, handle, priority_of, ret);
}

static CUresult get_context(bool per_thread, CUstream handle, CUcontext *ret)
{
    return get(per_thread, handle, context_of, ret);
}

static CUresult get_context_v2(bool per_thread, CUstream handle, CUcontext *ret, CUgreenCtx *green)
{
    CUcontext found = NULL;
    CUresult result = get(per_thread, handle, context_of, ret ? &found : NULL);
    if (!result)
        sim_green_of(found, ret, green);
    return result;
}

CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *ret)
{
    CUcontext found = NULL;
    SIM_ENTER("cuStreamGetGreenCtx");
    CUresult result = get(false, handle, context_of, ret ? &found : NULL);
    if (!result)
        sim_green_of(found, &found, ret);
    return result;
}

static CUresult get_id(bool per_thread, CUstream handle, unsigned long long *ret)
{
    return get(per_thread, handle, id_of, ret);
}

static CUresult get_device(bool per_thread, CUstream handle, CUdevice *ret)
{
    return get(per_thread, handle, device_of, ret);
}

SIM_TWINS(cuStreamGetFlags, _ptsz, get_flags, (CUstream s, unsigned *ret), (s, ret))
SIM_TWINS(cuStreamGetPriority, _ptsz, get_priority, (CUstream s, int *ret), (s, ret))
SIM_TWINS(cuStreamGetCtx, _ptsz, get_context, (CUstream s, CUcontext *ret), (s, ret))
SIM_TWINS(cuStreamGetCtx_v2, _ptsz, get_context_v2, (CUstream s, CUcontext *ret, CUgreenCtx *green),
          (s, ret, green))
SIM_TWINS(cuStreamGetId, _ptsz, get_id, (CUstream s, unsigned long long *ret), (s, ret))
SIM_TWINS(cuStreamGetDevice, _ptsz, get_device, (CUstream s, CUdevice *ret), (s, ret))
