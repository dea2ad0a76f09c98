/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/timed_call.h"

#include "preload/attach/driver.h"

bool gf_stream_is_uncaptured(const struct gf_cuda *cuda, CUstream stream)
{
    CUstreamCaptureStatus status;
    return cuda->cuStreamIsCapturing &&
           cuda->cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status == CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Without a context each query fails, and CUDA tools would report that as the program's error. */
static bool has_context(const struct gf_cuda *cuda)
{
    CUcontext context = NULL;
    return cuda->cuCtxGetCurrent(&context) == CUDA_SUCCESS && context;
}

/* Queries the event, or the stream if `event` is NULL. */
static CUresult query_driver(CUstream stream, CUevent event)
{
    CUresult result = CUDA_ERROR_UNKNOWN;
    const struct gf_cuda *cuda = gf_driver_functions();
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    if (!cuda || !cuda->cuThreadExchangeStreamCaptureMode || !cuda->cuStreamIsCapturing ||
        !cuda->cuStreamQuery || !cuda->cuEventQuery || !cuda->cuCtxGetCurrent)
        return result;
    const int error = errno, cancel = gf_thread_hold_cancel();
    if (has_context(cuda) && cuda->cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS) {
        if (event)
            result = cuda->cuEventQuery(event);
        else if (gf_stream_is_uncaptured(cuda, stream))
            result = cuda->cuStreamQuery(stream);
        cuda->cuThreadExchangeStreamCaptureMode(&mode);
    }
    gf_thread_release_cancel(cancel);
    errno = error;
    return result;
}

bool gf_stream_is_idle(CUstream stream)
{
    return query_driver(stream, NULL) == CUDA_SUCCESS;
}

bool gf_event_is_idle(CUevent event)
{
    return event && query_driver(NULL, event) == CUDA_SUCCESS;
}

/* Queries the legacy stream, unless a capture is open or begins. */
static CUresult query_legacy(void)
{
    if (!gf_submissions_query_begin())
        return CUDA_ERROR_UNKNOWN;
    const CUresult result = query_driver(CU_STREAM_LEGACY, NULL);
    gf_submissions_query_end();
    return result;
}

bool gf_stream_is_busy(CUstream stream)
{
    return (stream == CU_STREAM_LEGACY ? query_legacy() : query_driver(stream, NULL)) ==
           CUDA_ERROR_NOT_READY;
}

bool gf_copy_is_idle(CUstream stream)
{
    return query_legacy() == CUDA_SUCCESS &&
           (stream == CU_STREAM_LEGACY || gf_stream_is_idle(stream));
}
