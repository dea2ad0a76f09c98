/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture. During a capture, work goes into a graph, and calls that could wait for the
 * device are refused. A GLOBAL capture refuses the calls of any thread, THREAD_LOCAL those of the
 * capturing thread, RELAXED none. A refused call invalidates the capture.
 */
#include "copy.h"
#include "graph.h"

#include <stdlib.h>

static struct sim_capture *captures;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static bool forbids(const struct sim_capture *capture)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
        capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (pthread_equal(capture->owner, pthread_self()))
        return true;
    return capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;
    for (struct sim_capture *c = captures; c; c = c->next)
        if (forbids(c)) {
            c->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

/*
 * Refuses work on the legacy stream if a blocking stream is capturing, because that work would have
 * to wait for it.
 */
CUresult sim_capture_implicit(struct sim_stream *stream)
{
    CUresult result = CUDA_SUCCESS;
    if (stream != stream->context->legacy)
        return result;
    for (struct sim_stream *s = stream->context->streams; s; s = s->next)
        if (s->capture && !(s->flags & CU_STREAM_NON_BLOCKING)) {
            s->capture->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    return result;
}

CUresult sim_capture_refuses(struct sim_stream *stream)
{
    if (stream->capture) {
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    CUresult result = sim_capture_implicit(stream);
    return result ? result : sim_unsafe();
}

CUresult sim_capture_synchronizes(struct sim_context *context)
{
    CUresult result = CUDA_SUCCESS;
    for (struct sim_capture *c = captures; c; c = c->next)
        if (c->context == context) { /* whatever the mode and the thread */
            c->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

CUresult sim_issue(struct sim_stream *stream, CUgraphNodeType type, struct sim_op *op,
                   uint64_t *ret_seq)
{
    struct sim_capture *capture = stream->capture;
    CUresult result = CUDA_SUCCESS;
    if (!capture) {
        result = sim_capture_implicit(stream);
        if (!result) {
            uint64_t seq = sim_submit(stream, op);
            if (ret_seq)
                *ret_seq = seq;
            return CUDA_SUCCESS;
        }
    } else if (capture->invalid) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else {
        op->context = stream->context;
        stream->capture_last++;
        if (ret_seq)
            *ret_seq = 0;
        if (sim_graph_add(capture->graph, type, op))
            return CUDA_SUCCESS;
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    free(op);
    return result;
}

/* The caller holds the lock. */
static void leave(struct sim_capture *capture)
{
    struct sim_capture **at = &captures;
    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    for (struct sim_stream *s = capture->context->streams; s; s = s->next)
        if (s->capture == capture)
            s->capture = NULL;
}

void sim_capture_abandon(struct sim_stream *stream)
{
    struct sim_capture *capture = stream->capture;
    if (!capture)
        return;
    leave(capture);
    sim_graph_release(capture->graph);
    free(capture);
}

void sim_capture_join(struct sim_stream *stream, struct sim_stream *from, uint64_t last)
{
    if (stream != from && from->capture_joined < last)
        from->capture_joined = last;
    if (!stream->capture) {
        stream->capture = from->capture;
        stream->capture_joined = 0;
        stream->capture_last = 1; /* the stream must join again, even without work */
    } else if (stream != from) {
        stream->capture_last++;
    }
}

static CUresult begin_on(bool per_thread, CUstream handle, CUstreamCaptureMode mode,
                         struct sim_graph *graph)
{
    struct sim_stream *stream;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_stream_enter(handle, per_thread, &stream);
    if (result)
        return result;
    struct sim_capture *capture = NULL;
    sim_await_copies();
    if (stream == stream->context->legacy)
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    else if (stream->capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    else if (!(capture = calloc(1, sizeof *capture)) ||
             !(capture->graph = graph ? graph : sim_graph_new()))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        if (graph)
            graph->refs++;
        capture->id = sim_next_id();
        capture->mode = mode;
        capture->owner = pthread_self();
        capture->origin = stream;
        capture->context = stream->context;
        capture->next = captures;
        captures = capture;
        stream->capture = capture;
        stream->capture_last = stream->capture_joined = 0;
    } else {
        free(capture);
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

static CUresult begin(bool per_thread, CUstream handle, CUstreamCaptureMode mode)
{
    return begin_on(per_thread, handle, mode, NULL);
}

static CUresult begin_v1(bool per_thread, CUstream handle)
{
    return begin_on(per_thread, handle, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL);
}

SIM_TWINS(cuStreamBeginCapture, _ptsz, begin_v1, (CUstream s), (s))
SIM_TWINS(cuStreamBeginCapture_v2, _ptsz, begin, (CUstream s, CUstreamCaptureMode mode), (s, mode))

/* Records into a new graph, and does not compare it with the old one. */
static CUresult begin_again(bool per_thread, CUstream handle, CUstreamCaptureMode mode,
                            CUgraph graph, CUgraphRecaptureCallback callback, void *data)
{
    (void)callback;
    (void)data;
    return graph ? begin_on(per_thread, handle, mode, NULL) : CUDA_ERROR_INVALID_VALUE;
}

SIM_TWINS(cuStreamBeginRecaptureToGraph, _ptsz, begin_again,
          (CUstream s, CUstreamCaptureMode mode, CUgraph graph, CUgraphRecaptureCallback callback,
           void *data),
          (s, mode, graph, callback, data))

/* The simulated driver has no graphics API, and drops what is captured. */
static CUresult begin_cig(bool per_thread, CUstream handle, const void *params)
{
    return params ? begin_on(per_thread, handle, CU_STREAM_CAPTURE_MODE_RELAXED, NULL)
                  : CUDA_ERROR_INVALID_VALUE;
}

SIM_TWINS(cuStreamBeginCaptureToCig, _ptsz, begin_cig,
          (CUstream s, CUstreamCigCaptureParams *params), (s, params))

static bool joined(const struct sim_capture *capture)
{
    for (struct sim_stream *s = capture->context->streams; s; s = s->next)
        if (s->capture == capture && s != capture->origin && s->capture_joined < s->capture_last)
            return false;
    return true;
}

static CUresult end(bool per_thread, CUstream handle, CUgraph *ret)
{
    struct sim_stream *stream;
    CUresult result = sim_stream_enter(handle, per_thread, &stream);
    if (result)
        return result;
    struct sim_capture *capture = stream->capture;
    if (!ret)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (!capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    if (ret)
        *ret = NULL;
    if (!result && capture->origin != stream) {
        capture->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (result) {
        pthread_mutex_unlock(&sim_lock);
        return result;
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(capture->owner, pthread_self()))
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD; /* the capture ends nevertheless */
    else if (capture->invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!joined(capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    leave(capture);
    *ret = result ? NULL : (CUgraph)capture->graph;
    if (result)
        sim_graph_release(capture->graph);
    free(capture);
    pthread_mutex_unlock(&sim_lock);
    return result;
}

SIM_TWINS(cuStreamEndCapture, _ptsz, end, (CUstream s, CUgraph *ret), (s, ret))

static CUresult end_cig(bool per_thread, CUstream handle)
{
    CUgraph graph = NULL;
    const CUresult result = end(per_thread, handle, &graph);

    if (graph) {
        pthread_mutex_lock(&sim_lock);
        sim_graph_release((struct sim_graph *)graph);
        pthread_mutex_unlock(&sim_lock);
    }
    return result;
}

SIM_TWINS(cuStreamEndCaptureToCig, _ptsz, end_cig, (CUstream s), (s))

static CUstreamCaptureStatus status_of(const struct sim_stream *stream)
{
    return !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
           : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/*
 * The caller holds the lock. A query of the legacy stream during a capture is refused, but does not
 * invalidate the capture.
 */
static CUresult ask(struct sim_stream *stream)
{
    if (stream == stream->context->legacy)
        for (struct sim_stream *s = stream->context->streams; s; s = s->next)
            if (s->capture && !(s->flags & CU_STREAM_NON_BLOCKING))
                return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return CUDA_SUCCESS;
}

static CUresult is_capturing(bool per_thread, CUstream handle, CUstreamCaptureStatus *ret)
{
    struct sim_stream *stream;
    CUresult result = sim_stream_enter(handle, per_thread, &stream);
    if (result)
        return result;
    result = ret ? ask(stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *ret = status_of(stream);
    pthread_mutex_unlock(&sim_lock);
    return result;
}

SIM_TWINS(cuStreamIsCapturing, _ptsz, is_capturing, (CUstream s, CUstreamCaptureStatus *ret),
          (s, ret))

static CUresult info(bool per_thread, CUstream handle, CUstreamCaptureStatus *status,
                     cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps, size_t *count)
{
    struct sim_stream *stream;
    CUresult result = sim_stream_enter(handle, per_thread, &stream);
    if (result)
        return result;
    result = status ? ask(stream) : CUDA_ERROR_INVALID_VALUE;
    struct sim_capture *capture = stream->capture;
    if (!result)
        *status = status_of(stream);
    if (!result && capture && !capture->invalid) {
        struct sim_graph *g = capture->graph;
        if (id)
            *id = capture->id;
        if (graph)
            *graph = (CUgraph)g;
        if (count)
            *count = g->count ? 1 : 0;
        if (deps)
            *deps = g->count ? (const CUgraphNode *)(void *)&g->nodes[g->count - 1] : NULL;
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

static CUresult info_v1(bool per_thread, CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    return info(per_thread, s, status, id, NULL, NULL, NULL);
}

static CUresult info_v3(bool per_thread, CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id,
                        CUgraph *graph, const CUgraphNode **deps, const CUgraphEdgeData **edges,
                        size_t *count)
{
    if (edges)
        *edges = NULL;
    return info(per_thread, s, status, id, graph, deps, count);
}

SIM_TWINS(cuStreamGetCaptureInfo, _ptsz, info_v1,
          (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id), (s, status, id))
SIM_TWINS(cuStreamGetCaptureInfo_v2, _ptsz, info,
          (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
           const CUgraphNode **deps, size_t *count),
          (s, status, id, graph, deps, count))
SIM_TWINS(cuStreamGetCaptureInfo_v3, _ptsz, info_v3,
          (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
           const CUgraphNode **deps, const CUgraphEdgeData **edges, size_t *count),
          (s, status, id, graph, deps, edges, count))

/* Like the driver, accepts any value; a NULL pointer is a fault. */
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    SIM_ENTER("cuThreadExchangeStreamCaptureMode");
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
