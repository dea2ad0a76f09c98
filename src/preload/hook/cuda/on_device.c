/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hook of cuInit loads the engine. The other hooks tell the engine which device the program
 * uses. These are hooks of calls that create or select a context, or allocate device memory.
 */
#include "preload/hook/attach/engine_call.h"
#include "preload/hook/cuda/entry.h"
#include "preload/hook/cuda/timed_call.h"
#include "preload/trace/run_root.h"

static void notify_device(CUdevice device, enum gf_sighting how, uint64_t bytes)
{
    struct gf_engine_call call;
    if (!gf_engine_call_begin(&call))
        return;
    call.engine->device_seen(device, how, bytes);
    gf_engine_call_end(&call);
}

/* Notifies the engine that the program uses the device of the current context. */
static void notify_current(enum gf_sighting how, uint64_t bytes)
{
    CUdevice device;
    if (gf_likely(!gf_engine()))
        return;
    const int error = errno;
    const struct gf_cuda *cuda = gf_driver_functions();
    if (cuda->cuCtxGetDevice && cuda->cuCtxGetDevice(&device) == CUDA_SUCCESS)
        notify_device(device, how, bytes);
    errno = error;
}

/* Wraps a driver call in which the driver may start threads. */
#define IN_DRIVER(call)                                                                            \
    ({                                                                                             \
        gf_thread.in_driver++;                                                                     \
        const CUresult result_ = (call);                                                           \
        gf_thread.in_driver--;                                                                     \
        result_;                                                                                   \
    })

CUresult gf_on_cuInit(unsigned int Flags)
{
    __typeof__(cuInit) *real = GF_REAL(cuInit);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = IN_DRIVER(real(Flags));
    gf_run_root_initialised((int)result);
    if (result == CUDA_SUCCESS) {
        const int cancel = gf_thread_hold_cancel();
        gf_driver_trust();
        gf_attach();
        gf_thread_release_cancel(cancel);
    }
    return result;
}
GF_ENTRY(cuInit);

/*
 * Defines the hook of `symbol`. The expression `call` calls `real`. The statement `notify` runs if
 * that call succeeded.
 */
#define NOTIFYING(symbol, parameters, call, notify)                                                \
    CUresult gf_on_##symbol parameters                                                             \
    {                                                                                              \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        const CUresult result = (call);                                                            \
        if (result == CUDA_SUCCESS) {                                                              \
            notify;                                                                                \
        }                                                                                          \
        return result;                                                                             \
    }                                                                                              \
    GF_ENTRY(symbol)

NOTIFYING(cuDevicePrimaryCtxRetain, (CUcontext * pctx, CUdevice dev), IN_DRIVER(real(pctx, dev)),
          notify_device(dev, gf_sighting_retained, 0));
NOTIFYING(cuCtxCreate_v2, (CUcontext * pctx, unsigned flags, CUdevice dev),
          IN_DRIVER(real(pctx, flags, dev)), notify_device(dev, gf_sighting_retained, 0));
NOTIFYING(cuCtxCreate_v3,
          (CUcontext * pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned flags,
           CUdevice dev),
          IN_DRIVER(real(pctx, paramsArray, numParams, flags, dev)),
          notify_device(dev, gf_sighting_retained, 0));
NOTIFYING(cuCtxCreate_v4,
          (CUcontext * pctx, CUctxCreateParams *ctxCreateParams, unsigned flags, CUdevice dev),
          IN_DRIVER(real(pctx, ctxCreateParams, flags, dev)),
          notify_device(dev, gf_sighting_retained, 0));

/* A NULL context does not show which device is used. */
NOTIFYING(cuCtxSetCurrent, (CUcontext ctx), real(ctx),
          if (ctx) notify_current(gf_sighting_current, 0));
NOTIFYING(cuCtxPushCurrent_v2, (CUcontext ctx), real(ctx),
          if (ctx) notify_current(gf_sighting_current, 0));

NOTIFYING(cuMemAlloc_v2, (CUdeviceptr * dptr, size_t bytesize),
          GF_TIMED(gf_timed_driver_alloc, "cuMemAlloc_v2", bytesize, NULL, real(dptr, bytesize)),
          notify_current(gf_sighting_memory, bytesize));
NOTIFYING(cuMemAllocPitch_v2,
          (CUdeviceptr * dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
           unsigned ElementSizeBytes),
          real(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes),
          notify_current(gf_sighting_memory, (uint64_t)(pPitch ? *pPitch : WidthInBytes) * Height));
#define ALLOC_ASYNC(symbol, null_stream)                                                           \
    NOTIFYING(symbol, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),                     \
              real(dptr, bytesize, hStream), notify_current(gf_sighting_memory, bytesize))
GF_STREAM_PAIR(ALLOC_ASYNC, cuMemAllocAsync);
/*
 * Reports the current context's device, although the pool may belong to another device or to the
 * host.
 */
#define ALLOC_FROM_POOL(symbol, null_stream)                                                       \
    NOTIFYING(symbol, (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),  \
              real(dptr, bytesize, pool, hStream), notify_current(gf_sighting_memory, bytesize))
GF_STREAM_PAIR(ALLOC_FROM_POOL, cuMemAllocFromPoolAsync);

/*
 * The call needs no current context, because its properties name the device. An allocation of host
 * memory does not show which device is used.
 */
NOTIFYING(cuMemCreate,
          (CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp *prop,
           unsigned long long flags),
          real(handle, size, prop, flags),
          if (prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
              notify_device(prop->location.id, gf_sighting_memory, size));
