/* SPDX-License-Identifier: Apache-2.0 */
/* CuInit, contexts, device memory. */
#include "preload/attach/attach.h"
#include "preload/attach/submissions.h"
#include "preload/hook/driver_call.h"
#include "preload/hook/timed_call.h"
#include "preload/trace/run_root.h"

/*
 * The hooks of calls that may end contexts. The engine must destroy its objects in a context before
 * the context ends, or forget them when the context has ended.
 */

#define NO_DEVICE (-1)

/*
 * Notifies the engine before the driver's call, and makes the sampler stop querying streams of the
 * context. Returns true if the engine was notified; then it must also be notified of the result.
 */
static bool notify_leaving(CUcontext context, CUdevice device)
{
    if (!context && device == NO_DEVICE)
        return false; /* the driver would end no context */
    const bool notified = GF_WITH_TRANSFER(transfer->context_leaving(context, device));
    gf_submissions_unlist_context(context, device);
    return notified;
}

static bool is_active(CUdevice device)
{
    const struct gf_cuda *cuda = gf_driver_functions();
    unsigned flags;
    int active = 1;
    return !cuda->cuDevicePrimaryCtxGetState ||
           cuda->cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active;
}

/* Returns the primary context of the device, or NULL if it is not active. */
static CUcontext primary_of(CUdevice device)
{
    const struct gf_cuda *cuda = gf_driver_functions();
    CUcontext ret = NULL;

    if (!is_active(device) || !cuda->cuDevicePrimaryCtxRetain ||
        !cuda->cuDevicePrimaryCtxRelease_v2 ||
        cuda->cuDevicePrimaryCtxRetain(&ret, device) != CUDA_SUCCESS)
        return NULL;
    cuda->cuDevicePrimaryCtxRelease_v2(device);
    return ret;
}

/*
 * Returns the captures that end with the context, or with the device's primary context. The driver
 * is asked only if a capture is open.
 */
static unsigned captures_of(CUcontext context, CUdevice device)
{
    gf_keep_errno();
    unsigned ret = 0;

    if (gf_unlikely(gf_load_relaxed(&gf_submissions.captures)))
        ret = gf_captures_of_context(device >= 0 ? primary_of(device) : context);
    return ret;
}

static void leave_captures(unsigned captures, CUdevice device, CUresult result)
{
    gf_keep_errno();
    if (captures)
        gf_captures_left(captures, result == CUDA_SUCCESS && (device < 0 || !is_active(device)));
}

#define END(symbol, type, context, device)                                                         \
    CUresult gf_on_##symbol(type ended)                                                            \
    {                                                                                              \
        GF_FIND_REAL(symbol);                                                                      \
        const bool notified = notify_leaving(context, device);                                     \
        const unsigned captures = captures_of(context, device);                                    \
        const CUresult result = real(ended);                                                       \
        leave_captures(captures, device, result);                                                  \
        if (notified)                                                                              \
            GF_WITH_TRANSFER(transfer->context_left(context, device, result));                     \
        return result;                                                                             \
    }                                                                                              \
    GF_ENTRY(symbol)

#define END_CONTEXT(symbol) END(symbol, CUcontext, ended, NO_DEVICE)
#define END_PRIMARY(symbol) END(symbol, CUdevice, NULL, ended)
/*
 * The end of a green context may also end its device's primary context, because the green context
 * may hold the last reference to it.
 */
#define END_GREEN(symbol) END(symbol, CUgreenCtx, NULL, ended ? GF_ANY_DEVICE : NO_DEVICE)

END_CONTEXT(cuCtxDestroy);
END_CONTEXT(cuCtxDestroy_v2);
END_CONTEXT(cuCtxDetach);
END_PRIMARY(cuDevicePrimaryCtxRelease);
END_PRIMARY(cuDevicePrimaryCtxRelease_v2);
END_PRIMARY(cuDevicePrimaryCtxReset);
END_PRIMARY(cuDevicePrimaryCtxReset_v2);
END_GREEN(cuGreenCtxDestroy);

/*
 * The hook of cuInit loads the engine. The other hooks tell the engine which device the program
 * uses. These are hooks of calls that create or select a context, or allocate device memory.
 */

static void notify_device(CUdevice device, enum gf_sighting how, uint64_t bytes)
{
    GF_WITH_ENGINE(engine->device_seen(device, how, bytes));
}

/* Notifies the engine that the program uses the device of the current context. */
static void notify_current(enum gf_sighting how, uint64_t bytes)
{
    CUdevice device;
    if (gf_likely(!gf_engine()))
        return;
    gf_keep_errno();
    const struct gf_cuda *cuda = gf_driver_functions();
    if (cuda->cuCtxGetDevice && cuda->cuCtxGetDevice(&device) == CUDA_SUCCESS)
        notify_device(device, how, bytes);
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
    GF_FIND_REAL(cuInit);
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
 * Defines the hook of `symbol`, whose parameters are the last arguments. `around` is applied to the
 * original's call. The statement `notify` runs if that call succeeded.
 */
#define NOTIFYING(symbol, around, notify, ...)                                                     \
    CUresult gf_on_##symbol(GF_PARAMETERS(__VA_ARGS__))                                            \
    {                                                                                              \
        GF_FIND_REAL(symbol);                                                                      \
        const CUresult result = around(real(GF_ARGUMENTS(__VA_ARGS__)));                           \
        if (result == CUDA_SUCCESS) {                                                              \
            notify;                                                                                \
        }                                                                                          \
        return result;                                                                             \
    }                                                                                              \
    GF_ENTRY(symbol)
#define RETAINING(symbol, ...)                                                                     \
    NOTIFYING(symbol, IN_DRIVER, notify_device(dev, gf_sighting_retained, 0), __VA_ARGS__)

RETAINING(cuDevicePrimaryCtxRetain, (CUcontext *)pctx, (CUdevice)dev);
RETAINING(cuCtxCreate_v2, (CUcontext *)pctx, (unsigned)flags, (CUdevice)dev);
RETAINING(cuCtxCreate_v3, (CUcontext *)pctx, (CUexecAffinityParam *)paramsArray, (int)numParams,
          (unsigned)flags, (CUdevice)dev);
RETAINING(cuCtxCreate_v4, (CUcontext *)pctx, (CUctxCreateParams *)ctxCreateParams, (unsigned)flags,
          (CUdevice)dev);

/* A NULL context does not show which device is used. */
NOTIFYING(cuCtxSetCurrent, , if (ctx) notify_current(gf_sighting_current, 0), (CUcontext)ctx);
NOTIFYING(cuCtxPushCurrent_v2, , if (ctx) notify_current(gf_sighting_current, 0), (CUcontext)ctx);

#define TIMED_ALLOC(call) GF_TIMED(gf_timed_driver_alloc, "cuMemAlloc_v2", bytesize, NULL, call)
NOTIFYING(cuMemAlloc_v2, TIMED_ALLOC, notify_current(gf_sighting_memory, bytesize),
          (CUdeviceptr *)dptr, (size_t)bytesize);
NOTIFYING(cuMemAllocPitch_v2, ,
          notify_current(gf_sighting_memory, (uint64_t)(pPitch ? *pPitch : WidthInBytes) * Height),
          (CUdeviceptr *)dptr, (size_t *)pPitch, (size_t)WidthInBytes, (size_t)Height,
          (unsigned)ElementSizeBytes);
#define ALLOC_ASYNC(symbol, null_stream)                                                           \
    NOTIFYING(symbol, , notify_current(gf_sighting_memory, bytesize), (CUdeviceptr *)dptr,         \
              (size_t)bytesize, (CUstream)hStream)
GF_STREAM_PAIR(ALLOC_ASYNC, cuMemAllocAsync);
/*
 * Reports the current context's device, although the pool may belong to another device or to the
 * host.
 */
#define ALLOC_FROM_POOL(symbol, null_stream)                                                       \
    NOTIFYING(symbol, , notify_current(gf_sighting_memory, bytesize), (CUdeviceptr *)dptr,         \
              (size_t)bytesize, (CUmemoryPool)pool, (CUstream)hStream)
GF_STREAM_PAIR(ALLOC_FROM_POOL, cuMemAllocFromPoolAsync);

/*
 * The call needs no current context, because its properties name the device. An allocation of host
 * memory does not show which device is used.
 */
NOTIFYING(cuMemCreate, ,
          if (prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
              notify_device(prop->location.id, gf_sighting_memory, size),
          (CUmemGenericAllocationHandle *)handle, (size_t)size, (const CUmemAllocationProp *)prop,
          (unsigned long long)flags);
