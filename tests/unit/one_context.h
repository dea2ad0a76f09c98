/* SPDX-License-Identifier: Apache-2.0 */
/* A fake driver with one context, without captures, on a device with at most one special attribute. */
#ifndef ONE_CONTEXT_H
#define ONE_CONTEXT_H

#include "unit.h"

#include "abi/cuda.h"
#include "base/atomic.h"

#include <stdbool.h>
#include <stdint.h>

#define HANDLE ((CUcontext)(uintptr_t)64)

static struct {
    _Atomic(unsigned long long) id; /* id of the live context */
    _Atomic unsigned calls;         /* number of calls of these functions */
    bool is_primary;
    CUdevice_attribute has; /* the only attribute that is not 0 */
} one;

static CUresult answer(void)
{
    gf_add_relaxed(&one.calls, 1);
    return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *ret)
{
    *ret = HANDLE;
    return answer();
}

static CUresult get_id(CUcontext context, unsigned long long *ret)
{
    (void)context;
    *ret = gf_load_acquire(&one.id);
    return answer();
}

static CUresult get_device(CUdevice *ret)
{
    *ret = 0;
    return answer();
}

static CUresult get_flags(unsigned *ret)
{
    *ret = 0;
    return answer();
}

static CUresult get_attribute(int *ret, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    *ret = attribute == one.has;
    return answer();
}

static CUresult get_state(CUdevice device, unsigned *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = one.is_primary;
    return answer();
}

static CUresult retain(CUcontext *ret, CUdevice device)
{
    (void)device;
    *ret = HANDLE;
    return one.is_primary ? answer() : CUDA_ERROR_UNKNOWN;
}

static CUresult release(CUdevice device)
{
    (void)device;
    return one.is_primary ? answer() : CUDA_ERROR_UNKNOWN;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *ret)
{
    (void)stream;
    *ret = CU_STREAM_CAPTURE_STATUS_NONE;
    return answer();
}

static CUresult stream_context(CUstream stream, CUcontext *ret)
{
    (void)stream;
    *ret = HANDLE;
    return answer();
}

static __thread CUstreamCaptureMode thread_mode; /* CU_STREAM_CAPTURE_MODE_GLOBAL */

static CUresult exchange(CUstreamCaptureMode *mode)
{
    const CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return answer();
}

#define ONE_CONTEXT                                                                                \
    .cuCtxGetCurrent = get_current, .cuCtxGetId = get_id, .cuCtxGetDevice = get_device,            \
    .cuCtxGetFlags = get_flags, .cuDeviceGetAttribute = get_attribute,                             \
    .cuDevicePrimaryCtxGetState = get_state, .cuDevicePrimaryCtxRetain = retain,                   \
    .cuDevicePrimaryCtxRelease_v2 = release, .cuStreamIsCapturing = is_capturing,                  \
    .cuStreamGetCtx = stream_context, .cuThreadExchangeStreamCaptureMode = exchange

#endif
