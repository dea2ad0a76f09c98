/* SPDX-License-Identifier: Apache-2.0 */
/* A fake driver with one device, whose primary context is handle 1, and others. */
#ifndef CONTEXT_DRIVER_H
#define CONTEXT_DRIVER_H

#include "unit.h"

#include "engine/transfer/context.h"
#include "engine/transfer/setup.h"

static struct {
    CUcontext current, primary;
    unsigned long long id;
    unsigned long long
        retained_id; /* id of the context that a retain creates; 0: the current context's */
    int active;
    _Atomic int references;
    bool green;
    CUdevice device;
    CUdevice_attribute has; /* the only attribute that is not 0 */
} driver;

static CUresult get_current(CUcontext *ret)
{
    *ret = driver.current;
    return CUDA_SUCCESS;
}

static CUresult get_id(CUcontext context, unsigned long long *ret)
{
    (void)context;
    *ret =
        gf_load_relaxed(&driver.references) && driver.retained_id ? driver.retained_id : driver.id;
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *ret)
{
    *ret = driver.device;
    return CUDA_SUCCESS;
}

static CUresult get_attribute(int *ret, CUdevice_attribute attribute, CUdevice device)
{
    *ret = device == driver.device && attribute == driver.has;
    return CUDA_SUCCESS;
}

static CUresult get_state(CUdevice device, unsigned *flags, int *active)
{
    (void)device, (void)flags;
    *active = driver.active;
    return CUDA_SUCCESS;
}

static CUresult retain(CUcontext *ret, CUdevice device)
{
    (void)device;
    gf_add_relaxed(&driver.references, 1);
    *ret = driver.primary;
    return CUDA_SUCCESS;
}

static CUresult release(CUdevice device)
{
    (void)device;
    gf_sub_relaxed(&driver.references, 1);
    return CUDA_SUCCESS;
}

static CUresult stream_context(CUstream stream, CUcontext *ret, CUgreenCtx *ret_green)
{
    if (stream != CU_STREAM_LEGACY)
        return CUDA_ERROR_INVALID_HANDLE;
    *ret = driver.green ? driver.primary : driver.current;
    *ret_green = driver.green ? (CUgreenCtx)driver.current : NULL;
    return CUDA_SUCCESS;
}

static CUresult stream_green(CUstream stream, CUgreenCtx *ret)
{
    CUcontext unused;
    return stream_context(stream, &unused, ret);
}

static const struct gf_cuda context_cuda = {
    .cuCtxGetCurrent = get_current,
    .cuCtxGetId = get_id,
    .cuCtxGetDevice = get_device,
    .cuDeviceGetAttribute = get_attribute,
    .cuDevicePrimaryCtxGetState = get_state,
    .cuDevicePrimaryCtxRetain = retain,
    .cuDevicePrimaryCtxRelease_v2 = release,
};

static int device_node(CUdevice device, struct gf_cpus *ret_cpus)
{
    *ret_cpus = (struct gf_cpus){0};
    gf_set_add(ret_cpus, 0);
    return 7 + device;
}

static struct gf_context *enter_as(CUcontext handle, unsigned long long id)
{
    driver.current = handle;
    driver.id = id;
    driver.active = 1;
    return gf_context_enter();
}

#define HANDLE(n) ((CUcontext)(uintptr_t)(n))

#endif
