/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/on_cuda.h"

#include "hook/offer.h"

static void see(CUdevice device, enum gf_sighting how, uint64_t bytes)
{
    struct gf_visit visit;
    if (!gf_visit_begin(&visit))
        return;
    visit.engine->device_seen(device, how, bytes);
    gf_visit_end(&visit);
}

/* Of the device whose context is current. Costs nothing while there is no engine. */
static void see_current(enum gf_sighting how, uint64_t bytes)
{
    CUdevice device;
    if (gf_likely(!gf_engine()))
        return;
    const struct gf_cuda *cuda = gf_routes_cuda();
    if (!cuda->cuCtxGetDevice || cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return;
    see(device, how, bytes);
}

/* Runs a call of the driver's in which it may make threads of its own. */
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
    if (result == CUDA_SUCCESS) {
        const int cancel = gf_thread_hold_cancel();
        gf_routes_trust();
        gf_attach();
        gf_thread_release_cancel(cancel);
    }
    return result;
}
GF_ENTRY(cuInit);

/* The hook of `symbol`: `call` is made of `real`; after the driver's success it is `told` of a device. */
#define TELLING(symbol, parameters, call, told)                                                    \
    CUresult gf_on_##symbol parameters                                                             \
    {                                                                                              \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        const CUresult result = (call);                                                            \
        if (result == CUDA_SUCCESS) {                                                              \
            told;                                                                                  \
        }                                                                                          \
        return result;                                                                             \
    }                                                                                              \
    GF_ENTRY(symbol)

TELLING(cuDevicePrimaryCtxRetain, (CUcontext *pctx, CUdevice dev), IN_DRIVER(real(pctx, dev)),
        see(dev, gf_sighting_retained, 0));
TELLING(cuCtxCreate_v2, (CUcontext *pctx, unsigned flags, CUdevice dev),
        IN_DRIVER(real(pctx, flags, dev)), see(dev, gf_sighting_retained, 0));
TELLING(cuCtxCreate_v3,
        (CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned flags,
         CUdevice dev),
        IN_DRIVER(real(pctx, paramsArray, numParams, flags, dev)),
        see(dev, gf_sighting_retained, 0));
TELLING(cuCtxCreate_v4,
        (CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned flags, CUdevice dev),
        IN_DRIVER(real(pctx, ctxCreateParams, flags, dev)), see(dev, gf_sighting_retained, 0));

/* Without a context, as a program that is done with one sets it, no device has been seen. */
TELLING(cuCtxSetCurrent, (CUcontext ctx), real(ctx),
        if (ctx) see_current(gf_sighting_current, 0));
TELLING(cuCtxPushCurrent_v2, (CUcontext ctx), real(ctx),
        if (ctx) see_current(gf_sighting_current, 0));

TELLING(cuMemAlloc_v2, (CUdeviceptr *dptr, size_t bytesize),
        GF_TIMED(gf_timed_driver_alloc, "cuMemAlloc_v2", bytesize, NULL, real(dptr, bytesize)),
        see_current(gf_sighting_memory, bytesize));
TELLING(cuMemAllocPitch_v2,
        (CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
         unsigned ElementSizeBytes),
        real(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes),
        see_current(gf_sighting_memory, (uint64_t)(pPitch ? *pPitch : WidthInBytes) * Height));
TELLING(cuMemAllocAsync, (CUdeviceptr *dptr, size_t bytesize, CUstream hStream),
        real(dptr, bytesize, hStream), see_current(gf_sighting_memory, bytesize));
TELLING(cuMemAllocAsync_ptsz, (CUdeviceptr *dptr, size_t bytesize, CUstream hStream),
        real(dptr, bytesize, hStream), see_current(gf_sighting_memory, bytesize));
/* The pool may be another device's or the host's; the device that works with it is what matters. */
TELLING(cuMemAllocFromPoolAsync,
        (CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
        real(dptr, bytesize, pool, hStream), see_current(gf_sighting_memory, bytesize));
TELLING(cuMemAllocFromPoolAsync_ptsz,
        (CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
        real(dptr, bytesize, pool, hStream), see_current(gf_sighting_memory, bytesize));

/* Physical memory names its device itself, and needs no context; host memory says nothing. */
TELLING(cuMemCreate,
        (CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
         unsigned long long flags),
        real(handle, size, prop, flags),
        if (prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
            see(prop->location.id, gf_sighting_memory, size));
