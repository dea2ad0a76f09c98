/* SPDX-License-Identifier: Apache-2.0 */
/* Launches, waits, captures. */
#include "preload/attach/attach.h"
#include "preload/attach/submissions.h"
#include "preload/hook/copy_offload.h"
#include "preload/hook/driver_call.h"
#include "preload/trace/copy_waits.h"

/*
 * The hooks of calls that destroy a stream. The sampler must not query a stream that is destroyed,
 * another thread's copy may hold it, and a capture that began on the stream ends with it.
 */

#define DESTROY(symbol)                                                                            \
    CUresult gf_on_##symbol(CUstream hStream)                                                      \
    {                                                                                              \
        GF_FIND_REAL(symbol);                                                                      \
        gf_submissions_unlist(hStream);                                                            \
        gf_submissions_lose(hStream);                                                              \
        const unsigned captures = gf_captures_of_stream(hStream);                                  \
        const CUresult result = GF_ORDERED(hStream ? hStream : CU_STREAM_LEGACY, real(hStream));   \
        gf_captures_left(captures, result == CUDA_SUCCESS);                                        \
        return result;                                                                             \
    }                                                                                              \
    GF_ENTRY(symbol)

DESTROY(cuStreamDestroy);
DESTROY(cuStreamDestroy_v2);

/* The hooks of launches of kernels, graphs and host functions. */

#define CALLER_KIND gf_submissions_kind(__builtin_return_address(0))
GF_SUBMIT_STREAM(cuLaunchKernel, hStream, CALLER_KIND, (CUfunction)f, (unsigned)gridDimX,
                 (unsigned)gridDimY, (unsigned)gridDimZ, (unsigned)blockDimX, (unsigned)blockDimY,
                 (unsigned)blockDimZ, (unsigned)sharedMemBytes, (CUstream)hStream,
                 (void **)kernelParams, (void **)extra);
GF_SUBMIT_STREAM(cuLaunchKernelEx, config ? config->hStream : NULL, CALLER_KIND,
                 (const CUlaunchConfig *)config, (CUfunction)f, (void **)kernelParams,
                 (void **)extra);
GF_SUBMIT_STREAM(cuLaunchCooperativeKernel, hStream, CALLER_KIND, (CUfunction)f, (unsigned)gridDimX,
                 (unsigned)gridDimY, (unsigned)gridDimZ, (unsigned)blockDimX, (unsigned)blockDimY,
                 (unsigned)blockDimZ, (unsigned)sharedMemBytes, (CUstream)hStream,
                 (void **)kernelParams);
GF_SUBMIT_STREAM_VISIBLE(cuLaunchHostFunc, hStream, gf_work_kernel, (CUstream)hStream, (CUhostFn)fn,
                         (void *)userData);
GF_SUBMIT_STREAM_VISIBLE(cuLaunchHostFunc_v2, hStream, gf_work_kernel, (CUstream)hStream,
                         (CUhostFn)fn, (void *)userData, (unsigned)syncMode);
GF_SUBMIT_STREAM_VISIBLE(cuStreamAddCallback, hStream, gf_work_kernel, (CUstream)hStream,
                         (CUstreamCallback)callback, (void *)userData, (unsigned)flags);

#define GRAPH(symbol, null_stream)                                                                 \
    CUresult gf_on_##symbol(CUgraphExec hGraphExec, CUstream hStream)                              \
    {                                                                                              \
        GF_FIND_REAL(symbol);                                                                      \
        gf_submissions_launch_graph(hGraphExec);                                                   \
        return GF_SUBMIT_VISIBLE(hStream ? hStream : (null_stream), gf_work_kernel,                \
                                 real(hGraphExec, hStream));                                       \
    }                                                                                              \
    GF_ENTRY(symbol)

GF_STREAM_PAIR(GRAPH, cuGraphLaunch);

/* The hooks of operations by which a stream waits for a value in memory, or writes one. */

#define VALUE(symbol, type)                                                                        \
    GF_SUBMIT_STREAM_VISIBLE(symbol, stream, gf_work_kernel, (CUstream)stream, (CUdeviceptr)addr,  \
                             (type)value, (unsigned)flags)
#define OPERATIONS(symbol)                                                                         \
    GF_SUBMIT_STREAM_VISIBLE(symbol, stream, gf_work_kernel, (CUstream)stream, (unsigned)count,    \
                             (CUstreamBatchMemOpParams *)paramArray, (unsigned)flags)

VALUE(cuStreamWaitValue32, cuuint32_t);
VALUE(cuStreamWaitValue32_v2, cuuint32_t);
VALUE(cuStreamWaitValue64, cuuint64_t);
VALUE(cuStreamWaitValue64_v2, cuuint64_t);
VALUE(cuStreamWriteValue32, cuuint32_t);
VALUE(cuStreamWriteValue32_v2, cuuint32_t);
VALUE(cuStreamWriteValue64, cuuint64_t);
VALUE(cuStreamWriteValue64_v2, cuuint64_t);
OPERATIONS(cuStreamBatchMemOp);
OPERATIONS(cuStreamBatchMemOp_v2);

/*
 * The hooks of calls that wait for the GPU. The calls are timed for the report. A wait is a stall
 * only if the GPU was idle when the wait began. The driver cannot be asked whether a whole context
 * is idle, so a wait by cuCtxSynchronize is timed, but never a stall. Freeing device memory also
 * waits, but programs do not expect that, so every slow free is a stall.
 */

/* Notifies the engine after a driver call that waited for all work of the current context. */
static CUresult notify_waited(CUresult result)
{
    if (result == CUDA_SUCCESS)
        GF_WITH_TRANSFER(transfer->waited());
    return result;
}

CUresult gf_on_cuMemFree_v2(CUdeviceptr dptr)
{
    GF_FIND_REAL(cuMemFree_v2);
    bool waits = false;
    GF_WITH_TRANSFER(waits = transfer->device_free_waits(dptr));
    const CUresult result = GF_TIMED(gf_timed_driver_free, "cuMemFree_v2", 0, NULL, real(dptr));
    return waits ? notify_waited(result) : result;
}
GF_ENTRY(cuMemFree_v2);

GF_HOOK(cuCtxSynchronize, (void),
        notify_waited(GF_TIMED(gf_timed_driver_wait, "cuCtxSynchronize", 0, NULL, real())));

/*
 * These two functions are called around a wait, which may belong to a copy that the thread has just
 * queued (preload/trace/copy_waits.h).
 */
static void expect_copy(CUstream stream)
{
    if (gf_copy_waits_wanted() && !gf_thread.inside)
        gf_copy_waits_expect((uintptr_t)stream, gf_copy_offload_submitted());
}

static CUresult forget_copy(CUresult result)
{
    gf_copy_waits_forget();
    return result;
}

/* After a wait for a stream, the program knows the results that were visible before (`made`). */
static CUresult saw_visible(struct gf_visible *visible, uint32_t made, CUresult result)
{
    if (visible && result == CUDA_SUCCESS)
        gf_store_relaxed(&visible->seen, made);
    return result;
}

/* The log uses the same name for both stream flavours. */
#define STREAM_WAIT(symbol, null_stream)                                                           \
    CUresult gf_on_##symbol(CUstream hStream)                                                      \
    {                                                                                              \
        GF_FIND_REAL(symbol);                                                                      \
        const CUstream stream = hStream ? hStream : null_stream;                                   \
        uint32_t made;                                                                             \
        struct gf_visible *visible = gf_submit_await_visible(stream, &made);                       \
        expect_copy(stream);                                                                       \
        return saw_visible(visible, made,                                                          \
                           forget_copy(GF_WAITED(gf_timed_driver_wait, "cuStreamSynchronize", 0,   \
                                                 gf_stream_is_idle(stream), real(hStream))));      \
    }                                                                                              \
    GF_ENTRY(symbol)

GF_STREAM_PAIR(STREAM_WAIT, cuStreamSynchronize);

GF_HOOK(cuEventSynchronize, (CUevent hEvent),
        GF_WAITED(gf_timed_driver_wait, "cuEventSynchronize", 0, gf_event_is_idle(hEvent),
                  real(hEvent)));

/*
 * The hooks of calls that record an event. To the threads that wait for the event, a copy of another
 * thread is complete or has not begun, so the event must not get between the copy's DMAs.
 */

#define RECORD(symbol, null_stream, ...)                                                           \
    GF_HOOK(symbol, (GF_PARAMETERS(__VA_ARGS__)),                                                  \
            GF_ORDERED(hStream ? hStream : (null_stream), real(GF_ARGUMENTS(__VA_ARGS__))))

GF_STREAM_PAIR(RECORD, cuEventRecord, (CUevent)hEvent, (CUstream)hStream);
GF_STREAM_PAIR(RECORD, cuEventRecordWithFlags, (CUevent)hEvent, (CUstream)hStream,
               (unsigned int)flags);

/*
 * The hooks of calls by which a stream enters or leaves a capture. A stream enters a capture by the
 * call that begins the capture, or by a call that makes it wait for an event of a captured stream.
 * The engine is notified before such a call, because a capture must not record a part of a copy
 * that the engine issues for another thread.
 */

static bool tell_begins(void)
{
    return GF_WITH_TRANSFER(transfer->capture_begins());
}

static void tell_begun(void)
{
    GF_WITH_TRANSFER(transfer->capture_begun());
}

/* Notifies the engine before and after a call that may make a stream enter a capture. */
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
    gf_keep_errno();
    const struct gf_cuda *cuda = gf_driver_functions();
    CUcontext context = NULL;

    /* The legacy stream cannot be captured. */
    if (origin == CU_STREAM_LEGACY || !cuda->cuStreamGetCtx ||
        cuda->cuStreamGetCtx(origin, &context) != CUDA_SUCCESS)
        context = NULL;
    gf_captures_open(origin, context);
}

/* The hook of a call that begins a capture. Another thread's batch is captured as a whole or not at all. */
#define BEGIN(symbol, null_stream, ...)                                                            \
    CUresult gf_on_##symbol(GF_PARAMETERS(__VA_ARGS__))                                            \
    {                                                                                              \
        GF_FIND_REAL(symbol);                                                                      \
        open_capture(hStream ? hStream : (null_stream));                                           \
        gf_submissions_await_queries();                                                            \
        const CUresult result = GF_ORDERED_AS(hStream ? hStream : (null_stream), true,             \
                                              ENTERING(real(GF_ARGUMENTS(__VA_ARGS__))));          \
        if (result != CUDA_SUCCESS)                                                                \
            gf_captures_close(hStream ? hStream : (null_stream));                                  \
        return result;                                                                             \
    }                                                                                              \
    GF_ENTRY(symbol)

GF_STREAM_PAIR(BEGIN, cuStreamBeginCapture, (CUstream)hStream);
GF_STREAM_PAIR(BEGIN, cuStreamBeginCapture_v2, (CUstream)hStream, (CUstreamCaptureMode)mode);
GF_STREAM_PAIR(BEGIN, cuStreamBeginCaptureToGraph, (CUstream)hStream, (CUgraph)hGraph,
               (const CUgraphNode *)dependencies, (const CUgraphEdgeData *)dependencyData,
               (size_t)numDependencies, (CUstreamCaptureMode)mode);
GF_STREAM_PAIR(BEGIN, cuStreamBeginRecaptureToGraph, (CUstream)hStream, (CUstreamCaptureMode)mode,
               (CUgraph)hGraph, (CUgraphRecaptureCallback)callbackFunc, (void *)userData);
GF_STREAM_PAIR(BEGIN, cuStreamBeginCaptureToCig, (CUstream)hStream,
               (CUstreamCigCaptureParams *)params);

/*
 * Whether the call ended the capture. After other errors, the capture goes on. CUDA does not
 * document whether a failed recapture ends.
 */
static bool has_ended(CUresult result, CUstream stream)
{
    gf_keep_errno();
    return result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
           result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED ||
           result == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD ||
           (result == CUDA_ERROR_GRAPH_RECAPTURE_FAILURE &&
            gf_stream_is_uncaptured(gf_driver_functions(), stream));
}

/* The hook of a call that ends a capture. */
#define END(symbol, null_stream, ...)                                                              \
    CUresult gf_on_##symbol(GF_PARAMETERS(__VA_ARGS__))                                            \
    {                                                                                              \
        GF_FIND_REAL(symbol);                                                                      \
        const CUresult result = real(GF_ARGUMENTS(__VA_ARGS__));                                   \
        if (has_ended(result, hStream ? hStream : (null_stream)))                                  \
            gf_captures_close(hStream ? hStream : (null_stream));                                  \
        return result;                                                                             \
    }                                                                                              \
    GF_ENTRY(symbol)

GF_STREAM_PAIR(END, cuStreamEndCapture, (CUstream)hStream, (CUgraph *)phGraph);
GF_STREAM_PAIR(END, cuStreamEndCaptureToCig, (CUstream)hStream);

static CUresult note_awaits(CUresult result)
{
    if (gf_unlikely(!gf_load_relaxed(&gf_submissions.awaits_events)) && result == CUDA_SUCCESS)
        gf_store_relaxed(&gf_submissions.awaits_events, true);
    return result;
}

/*
 * If no capture is open, the call cannot make the stream enter a capture, so the engine is not
 * notified. Even while one is open, the stream may be that of another thread's copy.
 */
#define WAIT(symbol, null_stream)                                                                  \
    GF_HOOK(symbol, (CUstream hStream, CUevent hEvent, unsigned int Flags),                        \
            note_awaits(GF_ORDERED(hStream ? hStream : (null_stream),                              \
                                   gf_unlikely(gf_load_relaxed(&gf_submissions.captures))          \
                                       ? ENTERING(real(hStream, hEvent, Flags))                    \
                                       : real(hStream, hEvent, Flags))))

GF_STREAM_PAIR(WAIT, cuStreamWaitEvent);
