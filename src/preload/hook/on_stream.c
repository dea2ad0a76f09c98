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
#define KERNEL(symbol, null_stream)                                                                \
    GF_SUBMIT_HOOK(symbol, hStream, null_stream, CALLER_KIND,                                      \
                   (CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ,         \
                    unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ,                    \
                    unsigned sharedMemBytes, CUstream hStream, void **kernelParams, void **extra), \
                   (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,              \
                    sharedMemBytes, hStream, kernelParams, extra))
#define COOPERATIVE(symbol, null_stream)                                                           \
    GF_SUBMIT_HOOK(symbol, hStream, null_stream, CALLER_KIND,                                      \
                   (CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ,         \
                    unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ,                    \
                    unsigned sharedMemBytes, CUstream hStream, void **kernelParams),               \
                   (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,              \
                    sharedMemBytes, hStream, kernelParams))
#define KERNEL_EX(symbol, null_stream)                                                             \
    GF_SUBMIT_HOOK(                                                                                \
        symbol, config ? config->hStream : NULL, null_stream, CALLER_KIND,                         \
        (const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra),           \
        (config, f, kernelParams, extra))
#define HOST_FUNCTION(symbol, null_stream)                                                         \
    GF_SUBMIT_VISIBLE_HOOK(symbol, hStream, null_stream, gf_work_kernel,                           \
                           (CUstream hStream, CUhostFn fn, void *userData),                        \
                           (hStream, fn, userData))
#define HOST_FUNCTION_V2(symbol, null_stream)                                                      \
    GF_SUBMIT_VISIBLE_HOOK(symbol, hStream, null_stream, gf_work_kernel,                           \
                           (CUstream hStream, CUhostFn fn, void *userData, unsigned syncMode),     \
                           (hStream, fn, userData, syncMode))
#define CALLBACK(symbol, null_stream)                                                              \
    GF_SUBMIT_VISIBLE_HOOK(                                                                        \
        symbol, hStream, null_stream, gf_work_kernel,                                              \
        (CUstream hStream, CUstreamCallback callback, void *userData, unsigned flags),             \
        (hStream, callback, userData, flags))
#define GRAPH(symbol, null_stream)                                                                 \
    CUresult gf_on_##symbol(CUgraphExec hGraphExec, CUstream hStream)                              \
    {                                                                                              \
        GF_FIND_REAL(symbol);                                                                      \
        gf_submissions_launch_graph(hGraphExec);                                                   \
        return GF_SUBMIT_VISIBLE(hStream ? hStream : (null_stream), gf_work_kernel,                \
                                 real(hGraphExec, hStream));                                       \
    }                                                                                              \
    GF_ENTRY(symbol)

GF_STREAM_PAIR(KERNEL, cuLaunchKernel);
GF_STREAM_PAIR(KERNEL_EX, cuLaunchKernelEx);
GF_STREAM_PAIR(COOPERATIVE, cuLaunchCooperativeKernel);
GF_STREAM_PAIR(HOST_FUNCTION, cuLaunchHostFunc);
GF_STREAM_PAIR(HOST_FUNCTION_V2, cuLaunchHostFunc_v2);
GF_STREAM_PAIR(CALLBACK, cuStreamAddCallback);
GF_STREAM_PAIR(GRAPH, cuGraphLaunch);

/* The hooks of operations by which a stream waits for a value in memory, or writes one. */

#define VALUE(symbol, null_stream, type)                                                           \
    GF_SUBMIT_VISIBLE_HOOK(symbol, stream, null_stream, gf_work_kernel,                            \
                           (CUstream stream, CUdeviceptr addr, type value, unsigned flags),        \
                           (stream, addr, value, flags))
#define OPERATIONS(symbol, null_stream)                                                            \
    GF_SUBMIT_VISIBLE_HOOK(                                                                        \
        symbol, stream, null_stream, gf_work_kernel,                                               \
        (CUstream stream, unsigned count, CUstreamBatchMemOpParams *paramArray, unsigned flags),   \
        (stream, count, paramArray, flags))

GF_STREAM_PAIR(VALUE, cuStreamWaitValue32, cuuint32_t);
GF_STREAM_PAIR(VALUE, cuStreamWaitValue32_v2, cuuint32_t);
GF_STREAM_PAIR(VALUE, cuStreamWaitValue64, cuuint64_t);
GF_STREAM_PAIR(VALUE, cuStreamWaitValue64_v2, cuuint64_t);
GF_STREAM_PAIR(VALUE, cuStreamWriteValue32, cuuint32_t);
GF_STREAM_PAIR(VALUE, cuStreamWriteValue32_v2, cuuint32_t);
GF_STREAM_PAIR(VALUE, cuStreamWriteValue64, cuuint64_t);
GF_STREAM_PAIR(VALUE, cuStreamWriteValue64_v2, cuuint64_t);
GF_STREAM_PAIR(OPERATIONS, cuStreamBatchMemOp);
GF_STREAM_PAIR(OPERATIONS, cuStreamBatchMemOp_v2);

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

/* Whether the engine is to be notified after the free of device memory. */
static bool free_waits(CUdeviceptr p)
{
    bool waits = false;

    GF_WITH_TRANSFER(waits = transfer->device_free_waits(p));
    return waits;
}

CUresult gf_on_cuMemFree_v2(CUdeviceptr dptr)
{
    GF_FIND_REAL(cuMemFree_v2);
    const bool notifies = free_waits(dptr);
    const CUresult result = GF_TIMED(gf_timed_driver_free, "cuMemFree_v2", 0, NULL, real(dptr));
    return notifies ? notify_waited(result) : result;
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

#define RECORD(symbol, null_stream)                                                                \
    GF_HOOK(symbol, (CUevent hEvent, CUstream hStream),                                            \
            GF_ORDERED(hStream ? hStream : (null_stream), real(hEvent, hStream)))
#define RECORD_FLAGS(symbol, null_stream)                                                          \
    GF_HOOK(symbol, (CUevent hEvent, CUstream hStream, unsigned int flags),                        \
            GF_ORDERED(hStream ? hStream : (null_stream), real(hEvent, hStream, flags)))

GF_STREAM_PAIR(RECORD, cuEventRecord);
GF_STREAM_PAIR(RECORD_FLAGS, cuEventRecordWithFlags);

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
#define BEGIN(symbol, null_stream, parameters, arguments)                                          \
    CUresult gf_on_##symbol parameters                                                             \
    {                                                                                              \
        GF_FIND_REAL(symbol);                                                                      \
        open_capture(hStream ? hStream : (null_stream));                                           \
        gf_submissions_await_queries();                                                            \
        const CUresult result =                                                                    \
            GF_ORDERED_AS(hStream ? hStream : (null_stream), true, ENTERING(real arguments));      \
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
#define ENDING(symbol, null_stream, parameters, arguments)                                         \
    CUresult gf_on_##symbol parameters                                                             \
    {                                                                                              \
        GF_FIND_REAL(symbol);                                                                      \
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
