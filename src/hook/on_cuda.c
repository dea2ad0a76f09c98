/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/on_cuda.h"

#include "hook/visit.h"
#include "hook/watch.h"

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
    if (cuda->cuCtxGetDevice && cuda->cuCtxGetDevice(&device) == CUDA_SUCCESS)
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

CUresult gf_on_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    __typeof__(cuDevicePrimaryCtxRetain) *real = GF_REAL(cuDevicePrimaryCtxRetain);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = IN_DRIVER(real(pctx, dev));
    if (result == CUDA_SUCCESS)
        see(dev, gf_sighting_retained, 0);
    return result;
}
GF_ENTRY(cuDevicePrimaryCtxRetain);

CUresult gf_on_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    __typeof__(cuCtxCreate_v2) *real = GF_REAL(cuCtxCreate_v2);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = IN_DRIVER(real(pctx, flags, dev));
    if (result == CUDA_SUCCESS)
        see(dev, gf_sighting_retained, 0);
    return result;
}
GF_ENTRY(cuCtxCreate_v2);

CUresult gf_on_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
                              unsigned int flags, CUdevice dev)
{
    __typeof__(cuCtxCreate_v3) *real = GF_REAL(cuCtxCreate_v3);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = IN_DRIVER(real(pctx, paramsArray, numParams, flags, dev));
    if (result == CUDA_SUCCESS)
        see(dev, gf_sighting_retained, 0);
    return result;
}
GF_ENTRY(cuCtxCreate_v3);

CUresult gf_on_cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
                              unsigned int flags, CUdevice dev)
{
    __typeof__(cuCtxCreate_v4) *real = GF_REAL(cuCtxCreate_v4);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = IN_DRIVER(real(pctx, ctxCreateParams, flags, dev));
    if (result == CUDA_SUCCESS)
        see(dev, gf_sighting_retained, 0);
    return result;
}
GF_ENTRY(cuCtxCreate_v4);

/* Without a context, as a program that is done with one sets it, no device has been seen. */
CUresult gf_on_cuCtxSetCurrent(CUcontext ctx)
{
    __typeof__(cuCtxSetCurrent) *real = GF_REAL(cuCtxSetCurrent);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = real(ctx);
    if (result == CUDA_SUCCESS && ctx)
        see_current(gf_sighting_current, 0);
    return result;
}
GF_ENTRY(cuCtxSetCurrent);

CUresult gf_on_cuCtxPushCurrent_v2(CUcontext ctx)
{
    __typeof__(cuCtxPushCurrent_v2) *real = GF_REAL(cuCtxPushCurrent_v2);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = real(ctx);
    if (result == CUDA_SUCCESS && ctx)
        see_current(gf_sighting_current, 0);
    return result;
}
GF_ENTRY(cuCtxPushCurrent_v2);

CUresult gf_on_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    __typeof__(cuMemAlloc_v2) *real = GF_REAL(cuMemAlloc_v2);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result =
        GF_TIMED(gf_timed_driver_alloc, "cuMemAlloc_v2", bytesize, NULL, real(dptr, bytesize));
    if (result == CUDA_SUCCESS)
        see_current(gf_sighting_memory, bytesize);
    return result;
}
GF_ENTRY(cuMemAlloc_v2);

CUresult gf_on_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
                                  size_t Height, unsigned int ElementSizeBytes)
{
    __typeof__(cuMemAllocPitch_v2) *real = GF_REAL(cuMemAllocPitch_v2);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = real(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    if (result == CUDA_SUCCESS)
        see_current(gf_sighting_memory, (uint64_t)(pPitch ? *pPitch : WidthInBytes) * Height);
    return result;
}
GF_ENTRY(cuMemAllocPitch_v2);

CUresult gf_on_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    __typeof__(cuMemAllocAsync) *real = GF_REAL(cuMemAllocAsync);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = real(dptr, bytesize, hStream);
    if (result == CUDA_SUCCESS)
        see_current(gf_sighting_memory, bytesize);
    return result;
}
GF_ENTRY(cuMemAllocAsync);

CUresult gf_on_cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    __typeof__(cuMemAllocAsync_ptsz) *real = GF_REAL(cuMemAllocAsync_ptsz);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = real(dptr, bytesize, hStream);
    if (result == CUDA_SUCCESS)
        see_current(gf_sighting_memory, bytesize);
    return result;
}
GF_ENTRY(cuMemAllocAsync_ptsz);

/* The pool may be another device's or the host's; the device that works with it is what matters. */
CUresult gf_on_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                       CUstream hStream)
{
    __typeof__(cuMemAllocFromPoolAsync) *real = GF_REAL(cuMemAllocFromPoolAsync);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = real(dptr, bytesize, pool, hStream);
    if (result == CUDA_SUCCESS)
        see_current(gf_sighting_memory, bytesize);
    return result;
}
GF_ENTRY(cuMemAllocFromPoolAsync);

CUresult gf_on_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                            CUstream hStream)
{
    __typeof__(cuMemAllocFromPoolAsync_ptsz) *real = GF_REAL(cuMemAllocFromPoolAsync_ptsz);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = real(dptr, bytesize, pool, hStream);
    if (result == CUDA_SUCCESS)
        see_current(gf_sighting_memory, bytesize);
    return result;
}
GF_ENTRY(cuMemAllocFromPoolAsync_ptsz);

/* Physical memory names its device itself, and needs no context; host memory says nothing. */
CUresult gf_on_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                           const CUmemAllocationProp *prop, unsigned long long flags)
{
    __typeof__(cuMemCreate) *real = GF_REAL(cuMemCreate);
    if (!real)
        return CUDA_ERROR_NOT_FOUND;
    const CUresult result = real(handle, size, prop, flags);
    if (result == CUDA_SUCCESS && prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        see(prop->location.id, gf_sighting_memory, size);
    return result;
}
GF_ENTRY(cuMemCreate);
