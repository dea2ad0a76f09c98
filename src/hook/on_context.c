/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ends of contexts: what the engine holds in one has to go before or with it. Versions differ
 * in nothing that matters here.
 */
#include "hook/on_cuda.h"

#include "hook/visit.h"

#define NO_DEVICE (-1)

/* True if the engine was told, and so must be told how it ended. */
static bool leaving(CUcontext context, CUdevice device)
{
    struct gf_visit visit;
    if (!context && device == NO_DEVICE)
        return false; /* nothing that the driver would end */
    const struct gf_transfer_ops *transfer = gf_visit_transfer(&visit);
    if (!transfer)
        return false;
    transfer->context_leaving(context, device);
    gf_visit_end(&visit);
    return true;
}

static void left(CUcontext context, CUdevice device, CUresult result)
{
    struct gf_visit visit;
    const struct gf_transfer_ops *transfer = gf_visit_transfer(&visit);
    if (!transfer)
        return;
    transfer->context_left(context, device, result);
    gf_visit_end(&visit);
}

#define END(symbol, type, context, device)                                                         \
    CUresult gf_on_##symbol(type ended)                                                            \
    {                                                                                              \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        const bool told = leaving(context, device);                                                \
        const CUresult result = real(ended);                                                       \
        if (told)                                                                                  \
            left(context, device, result);                                                         \
        return result;                                                                             \
    }                                                                                              \
    GF_ENTRY(symbol)

#define END_CONTEXT(symbol) END(symbol, CUcontext, ended, NO_DEVICE)
#define END_PRIMARY(symbol) END(symbol, CUdevice, NULL, ended)
/* A green context holds the primary context of its device, and may be the last to do so. */
#define END_GREEN(symbol)                                                                          \
    END(symbol, CUgreenCtx, NULL, ended ? GF_ANY_DEVICE : NO_DEVICE)

END_CONTEXT(cuCtxDestroy);
END_CONTEXT(cuCtxDestroy_v2);
END_CONTEXT(cuCtxDetach);
END_PRIMARY(cuDevicePrimaryCtxRelease);
END_PRIMARY(cuDevicePrimaryCtxRelease_v2);
END_PRIMARY(cuDevicePrimaryCtxReset);
END_PRIMARY(cuDevicePrimaryCtxReset_v2);
END_GREEN(cuGreenCtxDestroy);
