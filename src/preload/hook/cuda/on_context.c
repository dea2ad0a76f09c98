/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of calls that may end contexts. The engine must destroy its objects in a context before
 * the context ends, or forget them when the context has ended.
 */
#include "preload/hook/attach/engine_call.h"
#include "preload/hook/captures.h"
#include "preload/hook/cuda/entry.h"
#include "preload/hook/submissions.h"

#include <errno.h>

#define NO_DEVICE (-1)

/*
 * Notifies the engine before the driver's call. Returns true if the engine was notified; then it
 * must also be notified of the result.
 */
static bool notify_leaving(CUcontext context, CUdevice device)
{
    struct gf_engine_call call;
    if (!context && device == NO_DEVICE)
        return false; /* the driver would end no context */
    const struct gf_transfer_ops *transfer = gf_engine_call_transfer(&call);
    if (!transfer)
        return false;
    transfer->context_leaving(context, device);
    gf_engine_call_end(&call);
    return true;
}

/* Makes the sampler stop querying streams of the context. */
static void unlist(CUcontext context, CUdevice device)
{
    if (!context && device == NO_DEVICE)
        return;
    gf_submissions_unlist_context(context, device);
}

static void notify_left(CUcontext context, CUdevice device, CUresult result)
{
    struct gf_engine_call call;
    const struct gf_transfer_ops *transfer = gf_engine_call_transfer(&call);
    if (!transfer)
        return;
    transfer->context_left(context, device, result);
    gf_engine_call_end(&call);
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
    const int error = errno;
    unsigned ret = 0;

    if (gf_unlikely(gf_load_relaxed(&gf_submissions.captures)))
        ret = gf_captures_of_context(device >= 0 ? primary_of(device) : context);
    errno = error;
    return ret;
}

static void leave_captures(unsigned captures, CUdevice device, CUresult result)
{
    const int error = errno;
    if (captures)
        gf_captures_left(captures, result == CUDA_SUCCESS && (device < 0 || !is_active(device)));
    errno = error;
}

#define END(symbol, type, context, device)                                                         \
    CUresult gf_on_##symbol(type ended)                                                            \
    {                                                                                              \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        const bool notified = notify_leaving(context, device);                                     \
        unlist(context, device);                                                                   \
        const unsigned captures = captures_of(context, device);                                    \
        const CUresult result = real(ended);                                                       \
        leave_captures(captures, device, result);                                                  \
        if (notified)                                                                              \
            notify_left(context, device, result);                                                  \
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
