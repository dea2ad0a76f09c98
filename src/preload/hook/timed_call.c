/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/timed_call.h"

#include "preload/attach/driver.h"

static bool stream_is_done(const struct gf_cuda *cuda, CUstream stream, CUevent event)
{
    CUstreamCaptureStatus status;

    (void)event;
    return cuda->cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status == CU_STREAM_CAPTURE_STATUS_NONE && cuda->cuStreamQuery(stream) == CUDA_SUCCESS;
}

static bool stream_is_unfinished(const struct gf_cuda *cuda, CUstream stream, CUevent event)
{
    CUstreamCaptureStatus status;

    (void)event;
    return cuda->cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status == CU_STREAM_CAPTURE_STATUS_NONE &&
           cuda->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
}

static bool event_is_done(const struct gf_cuda *cuda, CUstream stream, CUevent event)
{
    (void)stream;
    return cuda->cuEventQuery(event) == CUDA_SUCCESS;
}

static bool has_queries(const struct gf_cuda *cuda)
{
    return cuda && cuda->cuThreadExchangeStreamCaptureMode && cuda->cuStreamIsCapturing &&
           cuda->cuStreamQuery && cuda->cuEventQuery && cuda->cuCtxGetCurrent;
}

/* Without a context each query fails, and CUDA tools would report that as the program's error. */
static bool has_context(const struct gf_cuda *cuda)
{
    CUcontext context = NULL;
    return cuda->cuCtxGetCurrent(&context) == CUDA_SUCCESS && context;
}

static bool query_driver(bool (*is_done)(const struct gf_cuda *, CUstream, CUevent),
                         CUstream stream, CUevent event)
{
    const struct gf_cuda *cuda = gf_driver_functions();
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    if (!has_queries(cuda))
        return false;
    const int error = errno, cancel = gf_thread_hold_cancel();
    bool done = false;
    if (has_context(cuda) && cuda->cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS) {
        done = is_done(cuda, stream, event);
        cuda->cuThreadExchangeStreamCaptureMode(&mode);
    }
    gf_thread_release_cancel(cancel);
    errno = error;
    return done;
}

bool gf_stream_is_idle(CUstream stream)
{
    return query_driver(stream_is_done, stream, NULL);
}

bool gf_event_is_idle(CUevent event)
{
    return event && query_driver(event_is_done, NULL, event);
}

/* Queries the legacy stream, unless a capture is open or begins. */
static bool query_legacy(bool (*query)(CUstream stream))
{
    if (!gf_submissions_query_begin())
        return false;
    const bool ret = query(CU_STREAM_LEGACY);
    gf_submissions_query_end();
    return ret;
}

static bool is_busy(CUstream stream)
{
    return query_driver(stream_is_unfinished, stream, NULL);
}

bool gf_stream_is_busy(CUstream stream)
{
    return stream == CU_STREAM_LEGACY ? query_legacy(is_busy) : is_busy(stream);
}

bool gf_copy_is_idle(CUstream stream)
{
    return query_legacy(gf_stream_is_idle) &&
           (stream == CU_STREAM_LEGACY || gf_stream_is_idle(stream));
}
