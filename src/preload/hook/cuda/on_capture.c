/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of calls by which a stream enters or leaves a capture. A stream enters a capture by the
 * call that begins the capture, or by a call that makes it wait for an event of a captured stream.
 * The engine is notified before such a call, because a capture must not record a part of a copy
 * that the engine issues for another thread.
 */
#include "preload/hook/attach/engine_call.h"
#include "preload/hook/captures.h"
#include "preload/hook/cuda/submit.h"

#include <errno.h>

/* Returns the number of open captures. May be called on any thread. */
static unsigned captures_live(void)
{
    return gf_load_relaxed(&gf_submissions.captures);
}

/*
 * Notifies the engine before the call. Returns true if the engine was notified; then tell_begun
 * must be called after the call.
 */
static bool tell_begins(void)
{
    struct gf_engine_call call;
    const struct gf_transfer_ops *transfer = gf_engine_call_transfer(&call);
    if (!transfer)
        return false;
    transfer->capture_begins();
    gf_engine_call_end(&call);
    return true;
}

static void tell_begun(void)
{
    struct gf_engine_call call;
    const struct gf_transfer_ops *transfer = gf_engine_call_transfer(&call);
    if (!transfer)
        return;
    transfer->capture_begun();
    gf_engine_call_end(&call);
}

#define ENTERING(call)                                                                             \
    ({                                                                                             \
        const bool told_ = tell_begins();                                                          \
        const CUresult result_ = (call);                                                           \
        if (told_)                                                                                 \
            tell_begun();                                                                          \
        result_;                                                                                   \
    })

static void open_capture(CUstream origin)
{
    const int error = errno;
    const struct gf_cuda *cuda = gf_driver_functions();
    CUcontext context = NULL;

    /* The legacy stream cannot be captured. */
    if (origin == CU_STREAM_LEGACY || !cuda->cuStreamGetCtx ||
        cuda->cuStreamGetCtx(origin, &context) != CUDA_SUCCESS)
        context = NULL;
    gf_captures_open(origin, context);
    errno = error;
}

/* The hook of a call that begins a capture. */
#define BEGIN(symbol, null_stream, parameters, arguments)                                          \
    CUresult gf_on_##symbol parameters                                                             \
    {                                                                                              \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        open_capture(hStream ? hStream : (null_stream));                                           \
        gf_submissions_await_queries();                                                            \
        const CUresult result = ENTERING(real arguments);                                          \
        if (result != CUDA_SUCCESS)                                                                \
            gf_captures_close(hStream ? hStream : (null_stream));                                  \
        return result;                                                                             \
    }                                                                                              \
    GF_ENTRY(symbol)

#define BEGIN_V1(symbol, null_stream) BEGIN(symbol, null_stream, (CUstream hStream), (hStream))
#define BEGIN_V2(symbol, null_stream)                                                              \
    BEGIN(symbol, null_stream, (CUstream hStream, CUstreamCaptureMode mode), (hStream, mode))
#define BEGIN_TO_GRAPH(symbol, null_stream)                                                        \
    BEGIN(symbol, null_stream,                                                                     \
          (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,                      \
           const CUgraphEdgeData *dependencyData, size_t numDependencies,                          \
           CUstreamCaptureMode mode),                                                              \
          (hStream, hGraph, dependencies, dependencyData, numDependencies, mode))
#define BEGIN_RECAPTURE(symbol, null_stream)                                                       \
    BEGIN(symbol, null_stream,                                                                     \
          (CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,                             \
           CUgraphRecaptureCallback callbackFunc, void *userData),                                 \
          (hStream, mode, hGraph, callbackFunc, userData))
#define BEGIN_TO_CIG(symbol, null_stream)                                                          \
    BEGIN(symbol, null_stream, (CUstream hStream, CUstreamCigCaptureParams * params),              \
          (hStream, params))

GF_STREAM_PAIR(BEGIN_V1, cuStreamBeginCapture);
GF_STREAM_PAIR(BEGIN_V2, cuStreamBeginCapture_v2);
GF_STREAM_PAIR(BEGIN_TO_GRAPH, cuStreamBeginCaptureToGraph);
GF_STREAM_PAIR(BEGIN_RECAPTURE, cuStreamBeginRecaptureToGraph);
GF_STREAM_PAIR(BEGIN_TO_CIG, cuStreamBeginCaptureToCig);

static bool is_uncaptured(CUstream stream)
{
    const int error = errno;
    const struct gf_cuda *cuda = gf_driver_functions();
    CUstreamCaptureStatus status;
    const bool ret = cuda->cuStreamIsCapturing &&
                     cuda->cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
                     status == CU_STREAM_CAPTURE_STATUS_NONE;

    errno = error;
    return ret;
}

/*
 * Whether the call ended the capture. After other errors, the capture goes on. CUDA does not
 * document whether a failed recapture ends.
 */
static bool has_ended(CUresult result, CUstream stream)
{
    return result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
           result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED ||
           result == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD ||
           (result == CUDA_ERROR_GRAPH_RECAPTURE_FAILURE && is_uncaptured(stream));
}

/* The hook of a call that ends a capture. */
#define ENDING(symbol, null_stream, parameters, arguments)                                         \
    CUresult gf_on_##symbol parameters                                                             \
    {                                                                                              \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        const CUresult result = real arguments;                                                    \
        if (has_ended(result, hStream ? hStream : (null_stream)))                                  \
            gf_captures_close(hStream ? hStream : (null_stream));                                  \
        return result;                                                                             \
    }                                                                                              \
    GF_ENTRY(symbol)

#define END(symbol, null_stream)                                                                   \
    ENDING(symbol, null_stream, (CUstream hStream, CUgraph * phGraph), (hStream, phGraph))
#define END_TO_CIG(symbol, null_stream) ENDING(symbol, null_stream, (CUstream hStream), (hStream))

GF_STREAM_PAIR(END, cuStreamEndCapture);
GF_STREAM_PAIR(END_TO_CIG, cuStreamEndCaptureToCig);

/*
 * If no capture is open, the call cannot make the stream enter a capture, so the engine is not
 * notified.
 */
#define WAIT(symbol, null_stream)                                                                  \
    CUresult gf_on_##symbol(CUstream hStream, CUevent hEvent, unsigned int Flags)                  \
    {                                                                                              \
        __typeof__(symbol) *real = GF_REAL(symbol);                                                \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        return gf_unlikely(captures_live())                                                        \
                   ? ENTERING(real(hStream, hEvent, Flags))                                        \
                   : GF_ORDERED(hStream ? hStream : (null_stream), real(hStream, hEvent, Flags));  \
    }                                                                                              \
    GF_ENTRY(symbol)

GF_STREAM_PAIR(WAIT, cuStreamWaitEvent);
