/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/idle.h"

#include "hook/routes.h"
#include "hook/thread.h"

#include <errno.h>

static bool stream_is_done(const struct gf_cuda *cuda, CUstream stream, CUevent event)
{
    CUstreamCaptureStatus status;

    (void)event;
    return cuda->cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status == CU_STREAM_CAPTURE_STATUS_NONE && cuda->cuStreamQuery(stream) == CUDA_SUCCESS;
}

static bool event_is_done(const struct gf_cuda *cuda, CUstream stream, CUevent event)
{
    (void)stream;
    return cuda->cuEventQuery(event) == CUDA_SUCCESS;
}

static bool can_ask(const struct gf_cuda *cuda)
{
    return cuda && cuda->cuThreadExchangeStreamCaptureMode && cuda->cuStreamIsCapturing &&
           cuda->cuStreamQuery && cuda->cuEventQuery && cuda->cuCtxGetCurrent;
}

/* Without a context each question is an error, which tools would show as the program's. */
static bool is_current(const struct gf_cuda *cuda)
{
    CUcontext context = NULL;
    return cuda->cuCtxGetCurrent(&context) == CUDA_SUCCESS && context;
}

static bool ask(bool (*is_done)(const struct gf_cuda *, CUstream, CUevent), CUstream stream,
                CUevent event)
{
    const struct gf_cuda *cuda = gf_routes_cuda();
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    if (!can_ask(cuda))
        return false;
    const int error = errno, cancel = gf_thread_hold_cancel();
    bool done = false;
    if (is_current(cuda) && cuda->cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS) {
        done = is_done(cuda, stream, event);
        cuda->cuThreadExchangeStreamCaptureMode(&mode);
    }
    gf_thread_release_cancel(cancel);
    errno = error;
    return done;
}

bool gf_idle_stream(CUstream stream)
{
    return ask(stream_is_done, stream, NULL);
}

bool gf_idle_event(CUevent event)
{
    return event && ask(event_is_done, NULL, event);
}

bool gf_idle_copy(CUstream stream)
{
    return gf_idle_stream(CU_STREAM_LEGACY) &&
           (stream == CU_STREAM_LEGACY || gf_idle_stream(stream));
}
