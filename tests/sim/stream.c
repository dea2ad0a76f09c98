/* SPDX-License-Identifier: Apache-2.0 */
/* Stream handles: creation, look-up and waits. */
#include "copy.h"
#include "sim.h"

#include <stdlib.h>

/* One stream for each thread and context, used for CU_STREAM_PER_THREAD. */
static _Thread_local struct {
    struct sim_stream *at[SIM_DEVICES_MAX];
    int count;
} own;

struct sim_stream *sim_stream_make(struct sim_context *context, unsigned flags, int priority)
{
    struct sim_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    pthread_cond_init(&stream->work, NULL);
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = sim_next_id();
    stream->next = context->streams;
    context->streams = stream;
    return stream;
}

static struct sim_stream *legacy_of(struct sim_context *context)
{
    if (!context->legacy && (context->legacy = sim_stream_make(context, 0, 0)))
        context->legacy->internal = true;
    return context->legacy;
}

static struct sim_stream *own_of(struct sim_context *context)
{
    for (int i = 0; i < own.count; i++)
        if (own.at[i]->context == context)
            return own.at[i];
    struct sim_stream *stream = sim_stream_make(context, 0, 0);
    if (stream) {
        stream->internal = true;
        own.at[own.count % SIM_DEVICES_MAX] = stream;
        own.count += own.count < SIM_DEVICES_MAX;
    }
    return stream;
}

CUresult sim_stream_of(struct sim_context *context, CUstream handle, bool per_thread,
                       struct sim_stream **ret)
{
    if (handle == CU_STREAM_PER_THREAD || (!handle && per_thread)) {
        *ret = own_of(context);
        return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (handle == CU_STREAM_LEGACY || !handle) {
        *ret = legacy_of(context);
        return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (struct sim_context *c = sim_contexts; c; c = c->next)
        for (struct sim_stream *s = c->streams; s; s = s->next)
            if ((void *)s == (void *)handle && !s->dead && !s->internal) {
                *ret = s;
                return c->dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED : c->sticky;
            }
    return CUDA_ERROR_INVALID_HANDLE;
}

/* The caller holds the lock. Returns whether it has waited for another thread's batch. */
static bool await_batch(struct sim_stream *stream)
{
    if (!stream->in_batch || pthread_equal(stream->batcher, pthread_self()))
        return false;
    pthread_cond_wait(&sim_done, &sim_lock);
    return true;
}

CUresult sim_stream_enter(CUstream handle, bool per_thread, struct sim_stream **ret)
{
    struct sim_context *context;
    CUresult result = sim_context_current(&context);
    if (result)
        return result;
    pthread_mutex_lock(&sim_lock);
    do
        result = sim_stream_of(context, handle, per_thread, ret);
    while (!result && await_batch(*ret));
    if (result)
        pthread_mutex_unlock(&sim_lock);
    return result;
}

CUresult sim_batch_begin(CUstream handle, bool per_thread, struct sim_stream **ret)
{
    CUresult result = sim_stream_enter(handle, per_thread, ret);
    if (result)
        return result;
    (*ret)->in_batch = true;
    (*ret)->batcher = pthread_self();
    pthread_mutex_unlock(&sim_lock);
    return CUDA_SUCCESS;
}

void sim_batch_end(struct sim_stream *stream)
{
    pthread_mutex_lock(&sim_lock);
    stream->in_batch = false;
    pthread_cond_broadcast(&sim_done);
    pthread_mutex_unlock(&sim_lock);
}

static CUresult create(CUstream *ret, unsigned flags, int priority)
{
    struct sim_context *context;
    CUresult result = sim_context_current(&context);
    if (result)
        return result;
    if (!ret || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    sim_await_copies();
    *ret = (CUstream)sim_stream_make(context, flags,
                                     priority > 0    ? 0
                                     : priority < -5 ? -5
                                                     : priority);
    pthread_mutex_unlock(&sim_lock);
    return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamCreate(CUstream *ret, unsigned flags)
{
    SIM_ENTER("cuStreamCreate");
    return create(ret, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *ret, unsigned flags, int priority)
{
    SIM_ENTER("cuStreamCreateWithPriority");
    return create(ret, flags, priority);
}

static CUresult destroy(CUstream handle)
{
    struct sim_stream *stream;
    if (!handle)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = sim_stream_enter(handle, false, &stream);
    if (result)
        return result;
    if (stream->internal) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else {
        sim_capture_abandon(stream);
        stream->dead = true; /* the stream's thread ends when its work is done */
        pthread_cond_signal(&stream->work);
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

CUresult cuStreamDestroy_v2(CUstream handle)
{
    SIM_ENTER("cuStreamDestroy_v2");
    return destroy(handle);
}

CUresult cuStreamDestroy(CUstream handle)
{
    SIM_ENTER("cuStreamDestroy");
    return destroy(handle);
}

static CUresult synchronize(bool per_thread, CUstream handle)
{
    struct sim_stream *stream;
    CUresult result = sim_stream_enter(handle, per_thread, &stream);
    if (result)
        return result;
    result = sim_capture_refuses(stream);
    if (!result) {
        struct sim_context *context = stream->context;
        sim_wait_stream(stream);
        result = context->sticky;
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

SIM_TWINS(cuStreamSynchronize, _ptsz, synchronize, (CUstream handle), (handle))

static CUresult query(bool per_thread, CUstream handle)
{
    struct sim_stream *stream;
    CUresult result = sim_stream_enter(handle, per_thread, &stream);
    if (result)
        return result;
    result = sim_capture_refuses(stream);
    if (!result && !sim_stream_idle(stream))
        result = CUDA_ERROR_NOT_READY;
    if (!result)
        result = stream->context->sticky;
    pthread_mutex_unlock(&sim_lock);
    return result;
}

SIM_TWINS(cuStreamQuery, _ptsz, query, (CUstream handle), (handle))

CUresult cuCtxSynchronize(void)
{
    SIM_ENTER_CONTEXT("cuCtxSynchronize", context);
    pthread_mutex_lock(&sim_lock);
    CUresult result = sim_capture_synchronizes(context);
    if (!result) {
        sim_wait_context(context);
        result = context->sticky;
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}

CUresult cuCtxSynchronize_v2(CUcontext handle)
{
    struct sim_context *context;
    SIM_ENTER("cuCtxSynchronize_v2");
    CUresult result = handle ? CUDA_SUCCESS : sim_context_current(&context);
    if (result)
        return result;
    pthread_mutex_lock(&sim_lock);
    if (handle)
        context = sim_context_of(handle);
    result = !context ? CUDA_ERROR_INVALID_CONTEXT : sim_capture_synchronizes(context);
    if (!result) {
        sim_wait_context(context);
        result = context->sticky;
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}
