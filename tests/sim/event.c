/* SPDX-License-Identifier: Apache-2.0 */
/* Events: recording, querying and waiting, and the order that they create between streams. */
#include "copy.h"
#include "graph.h"

#include <stdlib.h>

struct sim_event {
    struct sim_event *next;
    struct sim_context *context;
    unsigned flags;
    bool dead;
    struct sim_stream *stream; /* stream of the last record */
    uint64_t seq;
    uint64_t time_ns;
    uint64_t capture; /* the capture in which it was recorded, and its position there */
    uint64_t capture_last;
};

static struct sim_event *events;

CUresult cuEventCreate(CUevent *ret, unsigned flags)
{
    SIM_ENTER_CONTEXT("cuEventCreate", context);
    if (!ret || flags > 7 ||
        ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *event = calloc(1, sizeof *event);
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->context = context;
    event->flags = flags;
    pthread_mutex_lock(&sim_lock);
    sim_await_copies();
    event->next = events;
    events = event;
    pthread_mutex_unlock(&sim_lock);
    *ret = (CUevent)event;
    return CUDA_SUCCESS;
}

/* The caller holds the lock. */
static struct sim_event *event_of(CUevent handle)
{
    for (struct sim_event *e = events; e; e = e->next)
        if ((void *)e == (void *)handle && !e->dead)
            return e;
    return NULL;
}

static CUresult destroy(CUevent handle)
{
    struct sim_context *context;
    CUresult result = sim_context_current(&context);
    if (result)
        return result;
    pthread_mutex_lock(&sim_lock);
    struct sim_event *event = event_of(handle);
    if (event)
        event->dead = true; /* an operation that records it may still be queued */
    pthread_mutex_unlock(&sim_lock);
    return event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventDestroy_v2(CUevent handle)
{
    SIM_ENTER("cuEventDestroy_v2");
    return destroy(handle);
}

CUresult cuEventDestroy(CUevent handle)
{
    SIM_ENTER("cuEventDestroy");
    return destroy(handle);
}

static void stamp(struct sim_op *op)
{
    struct sim_event *event = (struct sim_event *)(uintptr_t)op->payload[0];
    __atomic_store_n(&event->time_ns, sim_now_ns(), __ATOMIC_RELAXED);
}

static CUresult record(bool per_thread, CUevent handle, CUstream s)
{
    struct sim_stream *stream;
    CUresult result = sim_stream_enter(s, per_thread, &stream);
    if (result)
        return result;
    struct sim_event *event = event_of(handle);
    if (!event || event->context->device != stream->context->device) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (stream->capture) {
        if (stream->capture->invalid)
            result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        event->capture = stream->capture->id;
        event->capture_last = stream->capture_last;
        event->stream = stream;
    } else {
        struct sim_op *op = sim_op_new(stamp, sizeof op->payload[0]);
        op->payload[0] = (uintptr_t)event;
        op->always = true;
        uint64_t seq;
        result = sim_issue(stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, op, &seq);
        if (!result) {
            event->capture = 0;
            event->stream = stream;
            event->seq = seq;
        }
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

static CUresult record_flags(bool per_thread, CUevent event, CUstream s, unsigned flags)
{
    return flags > CU_EVENT_RECORD_EXTERNAL ? CUDA_ERROR_INVALID_VALUE
                                            : record(per_thread, event, s);
}

SIM_TWINS(cuEventRecord, _ptsz, record, (CUevent event, CUstream s), (event, s))
SIM_TWINS(cuEventRecordWithFlags, _ptsz, record_flags, (CUevent event, CUstream s, unsigned flags),
          (event, s, flags))

/*
 * The caller holds the lock. A capture refuses the query of a captured event, as it refuses a
 * synchronisation.
 */
static CUresult may_ask(CUevent handle, struct sim_event **ret)
{
    *ret = event_of(handle);
    if (!*ret)
        return CUDA_ERROR_INVALID_HANDLE;
    const struct sim_event *event = *ret;
    if (event->capture) {
        struct sim_capture *capture = event->stream->capture;
        if (!capture || capture->id != event->capture)
            return CUDA_ERROR_INVALID_VALUE; /* the capture of the event has ended */
        capture->invalid = true;
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    return sim_unsafe();
}

CUresult cuEventQuery(CUevent handle)
{
    struct sim_event *event;
    SIM_ENTER_CONTEXT("cuEventQuery", context);
    pthread_mutex_lock(&sim_lock);
    CUresult result = may_ask(handle, &event);
    if (!result && event->stream) {
        sim_want(event->stream, event->seq);
        if (event->stream->completed < event->seq)
            result = CUDA_ERROR_NOT_READY;
        else
            result = context->sticky;
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

CUresult cuEventSynchronize(CUevent handle)
{
    struct sim_event *event;
    SIM_ENTER_CONTEXT("cuEventSynchronize", context);
    pthread_mutex_lock(&sim_lock);
    CUresult result = may_ask(handle, &event);
    if (!result && event->stream) {
        sim_wait(event->stream, event->seq);
        result = context->sticky;
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

static CUresult elapsed(float *ret, CUevent from, CUevent to)
{
    struct sim_context *context;
    CUresult result = sim_context_current(&context);
    if (result)
        return result;
    if (!ret)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    struct sim_event *a = event_of(from), *b = event_of(to);
    if (!a || !b || !a->stream || !b->stream || (a->flags & CU_EVENT_DISABLE_TIMING) ||
        (b->flags & CU_EVENT_DISABLE_TIMING))
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (a->stream->completed < a->seq || b->stream->completed < b->seq)
        result = CUDA_ERROR_NOT_READY;
    else
        *ret = (float)((double)(int64_t)(b->time_ns - a->time_ns) * 1e-6);
    pthread_mutex_unlock(&sim_lock);
    return result;
}

CUresult cuEventElapsedTime(float *ret, CUevent from, CUevent to)
{
    SIM_ENTER("cuEventElapsedTime");
    return elapsed(ret, from, to);
}

CUresult cuEventElapsedTime_v2(float *ret, CUevent from, CUevent to)
{
    SIM_ENTER("cuEventElapsedTime_v2");
    return elapsed(ret, from, to);
}

static CUresult wait_event(bool per_thread, CUstream s, CUevent handle, unsigned flags)
{
    struct sim_stream *stream;
    if (flags > CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_stream_enter(s, per_thread, &stream);
    if (result)
        return result;
    struct sim_event *event = event_of(handle);
    struct sim_capture *capture = event && event->stream ? event->stream->capture : NULL;
    if (!event)
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (event->capture && (!capture || capture->id != event->capture))
        result = CUDA_ERROR_INVALID_VALUE; /* the capture of the event has ended */
    else if (event->capture && stream->capture && stream->capture != capture) {
        capture->invalid = stream->capture->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_MERGE;
    } else if (event->capture && stream == stream->context->legacy)
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    else if (event->capture)
        sim_capture_join(stream, event->stream, event->capture_last);
    else if (stream->capture && event->stream) {
        stream->capture->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    } else if (event->stream)
        sim_stream_depend(stream, event->stream, event->seq);
    pthread_mutex_unlock(&sim_lock);
    return result;
}

SIM_TWINS(cuStreamWaitEvent, _ptsz, wait_event, (CUstream s, CUevent event, unsigned flags),
          (s, event, flags))
