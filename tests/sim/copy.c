/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers, as measured on the real driver. The calling thread reads pageable memory. A
 * synchronous call first waits for its stream. An asynchronous call reads at once: it buffers up to
 * STAGED bytes and returns. The rest of a larger copy is read when the stream reaches the copy. The
 * stream reads and writes pinned memory.
 */
#include "copy.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * An asynchronous copy from pageable memory reads this many bytes before it returns.
 */
#define STAGED ((size_t)2 << 20)

/* The source or destination of a copy, after its address was looked up. */
struct end {
    enum sim_kind kind;
    char *at; /* the memory that is read or written */
};

struct job {
    /* dst and src are translated addresses, not the program's */
    struct sim_block block;
    char *staged; /* bytes that were read early; freed at the end */
    bool gate;    /* the stream waits here until the calling thread has copied */
    bool open, over;
};

struct sim_block sim_line(uintptr_t dst, uintptr_t src, size_t size)
{
    return (struct sim_block){.dst = dst, .src = src, .width = size, .height = 1, .depth = 1};
}

static size_t extent(size_t width, size_t height, size_t depth, size_t pitch, size_t slice)
{
    return (depth - 1) * slice + (height - 1) * pitch + width;
}

/*
 * The caller holds the lock. Returns false if the bytes are of several kinds, or of the wrong kind
 * for this side.
 */
static bool look_up(uintptr_t at, size_t size, enum sim_side side, struct end *ret)
{
    struct sim_range *range = sim_range_at(at);
    if (!range) {
        *ret = (struct end){sim_none, (char *)at};
        return side != sim_device_side;
    }
    if (size > range->size - (at - range->start))
        return false;
    *ret = (struct end){range->kind, range->backing + (at - range->start)};
    return true;
}

static bool on_device(struct end end)
{
    return end.kind == sim_device_memory || end.kind == sim_managed;
}

static void move(const struct sim_block *b)
{
    for (size_t z = 0; z < b->depth; z++)
        for (size_t y = 0; y < b->height; y++)
            memmove((char *)b->dst + z * b->dst_slice + y * b->dst_pitch,
                    (const char *)b->src + z * b->src_slice + y * b->src_pitch, b->width);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Like move, at no more than `rate` bytes per second. `all` is the size of the whole copy. */
static void move_slowly(const struct sim_block *b, uint64_t all, uint64_t rate)
{
    const uint64_t start = rate ? now_ns() : 0;
    move(b);
    if (!rate)
        return;
    const uint64_t took = now_ns() - start;
    const uint64_t least = (uint64_t)((double)all * 1e9 / (double)rate);
    if (took < least)
        sim_sleep_ns(least - took);
}

static uint64_t bytes_of(const struct sim_block *b)
{
    return (uint64_t)b->width * b->height * b->depth;
}

/* Runs on the stream's thread when the stream reaches the transfer. */
static void transfer(struct sim_op *op)
{
    struct job *job = (struct job *)op->payload;
    CUresult fault = sim_fault("dma");
    if (fault)
        sim_break(op->context, fault);
    if (job->gate) {
        pthread_mutex_lock(&sim_lock);
        job->open = true;
        pthread_cond_broadcast(&sim_done);
        while (!job->over)
            pthread_cond_wait(&sim_done, &sim_lock);
        pthread_mutex_unlock(&sim_lock);
    } else if (!fault) {
        move_slowly(&job->block, bytes_of(&job->block), sim_config.link_rate);
    }
}

static void transfer_staged(struct sim_op *op)
{
    transfer(op);
    free(((struct job *)op->payload)->staged);
}

static CUresult look_up_both(struct sim_block *b, enum sim_side dst, enum sim_side src,
                             struct end *ret_to, struct end *ret_from)
{
    if (!look_up(b->dst, extent(b->width, b->height, b->depth, b->dst_pitch, b->dst_slice), dst,
                 ret_to) ||
        !look_up(b->src, extent(b->width, b->height, b->depth, b->src_pitch, b->src_slice), src,
                 ret_from))
        return CUDA_ERROR_INVALID_VALUE;
    b->dst = (uintptr_t)ret_to->at;
    b->src = (uintptr_t)ret_from->at;
    return CUDA_SUCCESS;
}

static struct sim_op *new_op(const struct sim_block *block)
{
    struct sim_op *op = sim_op_new(transfer, sizeof(struct job));
    ((struct job *)op->payload)->block = *block;
    return op;
}

struct sim_op *sim_copy_op(const struct sim_block *block, enum sim_side dst, enum sim_side src)
{
    struct sim_block b = *block;
    struct end to, from;
    return look_up_both(&b, dst, src, &to, &from) ? NULL : new_op(&b);
}

/*
 * The caller holds the lock. With SIM_TURNS, pageable copies of one direction in a context run one
 * at a time, and so do calls on one stream, even while the stream is blocked. The real driver may
 * do the same.
 */
static void begin_turn(struct sim_stream *stream, bool to_host)
{
    while (sim_config.turns && (stream->in_turn || stream->context->in_turn[to_host]))
        pthread_cond_wait(&sim_done, &sim_lock);
    stream->in_turn = stream->context->in_turn[to_host] = sim_config.turns;
}

static void end_turn(struct sim_stream *stream, bool to_host)
{
    stream->in_turn = stream->context->in_turn[to_host] = false;
    pthread_cond_broadcast(&sim_done);
}

/* The caller holds the lock. The calling thread copies while the stream waits at the transfer. */
static CUresult in_place_now(struct sim_stream *stream, const struct sim_block *block, size_t early)
{
    struct sim_op *op = new_op(block);
    struct job *job = (struct job *)op->payload;
    struct sim_context *context = stream->context;
    struct sim_block rest = *block;
    char *first = NULL;
    uint64_t seq;
    job->gate = true;
    if (early && (first = malloc(early))) {
        memcpy(first, (const void *)block->src, early);
        rest.dst += early;
        rest.src += early;
        rest.width -= early;
    }
    CUresult result = sim_issue(stream, CU_GRAPH_NODE_TYPE_MEMCPY, op, &seq);
    if (!result) {
        sim_want(stream, seq);
        while (stream->completed < seq && !job->open)
            pthread_cond_wait(&sim_done, &sim_lock);
        if (stream->completed < seq && !context->sticky) {
            /* the program's memory may fault, so no lock is held */
            pthread_mutex_unlock(&sim_lock);
            if (first)
                memcpy((void *)block->dst, first, early);
            move_slowly(&rest, bytes_of(block), sim_config.pageable_rate);
            pthread_mutex_lock(&sim_lock);
        }
        if (stream->completed < seq) {
            job->over = true;
            pthread_cond_broadcast(&sim_done);
            sim_wait(stream, seq);
        }
        result = context->sticky;
    }
    free(first);
    return result;
}

static unsigned in_place_count;

void sim_await_copies(void)
{
    while (sim_config.exclusive && in_place_count)
        pthread_cond_wait(&sim_done, &sim_lock);
}

static CUresult in_place(struct sim_stream *stream, const struct sim_block *block, size_t early,
                         bool to_host)
{
    begin_turn(stream, to_host);
    in_place_count++;
    CUresult result = in_place_now(stream, block, early);
    in_place_count--;
    end_turn(stream, to_host);
    return result;
}

/* The caller holds the lock. Reads a small source at once; the stream delivers it later. */
static CUresult staged(struct sim_stream *stream, const struct sim_block *block)
{
    struct sim_block in = *block, out = *block;
    char *bytes = malloc(block->width * block->height * block->depth);
    if (!bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    in.dst = out.src = (uintptr_t)bytes;
    in.dst_pitch = out.src_pitch = block->width;
    in.dst_slice = out.src_slice = block->width * block->height;
    move(&in);
    struct sim_op *op = new_op(&out);
    ((struct job *)op->payload)->staged = bytes;
    op->run = transfer_staged;
    return sim_issue(stream, CU_GRAPH_NODE_TYPE_MEMCPY, op, NULL);
}

/* The caller holds the lock. The stream does all of the copy; the caller may wait for it. */
static CUresult queued(struct sim_stream *stream, const struct sim_block *block, bool wait)
{
    struct sim_op *op = new_op(block);
    uint64_t seq;
    while (stream->in_turn)
        pthread_cond_wait(&sim_done, &sim_lock);
    op->late = true;
    CUresult result = sim_issue(stream, CU_GRAPH_NODE_TYPE_MEMCPY, op, &seq);
    if (!result && wait && seq) {
        sim_wait(stream, seq);
        result = stream->context->sticky;
    }
    return result;
}

/*
 * The caller holds the lock. Applies SIM_BATCH to a member of a batch. The documentation permits
 * each behaviour except `forgets`. Returns false if the member behaves as measured.
 */
static bool otherwise(struct sim_stream *stream, const struct sim_block *b, enum sim_when when,
                      CUresult *ret)
{
    const bool out_of_order = when == sim_before_return || when == sim_whenever;
    if (!out_of_order && when != sim_in_order)
        return false;
    switch (sim_config.batch) {
    case sim_batch_early: /* inside the call, before earlier work of the stream */
        if (!out_of_order)
            return false;
        *ret = staged(stream, b);
        return true;
    case sim_batch_late: /* when the stream reaches it, or just before the call returns */
        *ret = when == sim_before_return ? in_place(stream, b, 0, false) : queued(stream, b, false);
        return true;
    case sim_batch_forgets:
        *ret = queued(stream, b, false);
        return true;
    default:
        return false;
    }
}

static CUresult route(struct sim_stream *stream, struct sim_block *b, struct end to,
                      struct end from, enum sim_when when)
{
    bool line = b->height == 1 && b->depth == 1;
    if (stream->capture) /* the graph is launched later, so nothing is read now */
        return when == sim_at_once ? sim_capture_refuses(stream) : queued(stream, b, false);
    CUresult result = sim_capture_implicit(stream);
    if (result)
        return result;
    if (on_device(to) && from.kind != sim_device_memory && from.kind != sim_managed &&
        otherwise(stream, b, when, &result))
        return result;
    if (from.kind == sim_none && on_device(to)) {
        if (when == sim_at_once)
            sim_wait_stream(stream);
        if (when != sim_in_order && b->width * b->height * b->depth <= STAGED)
            return staged(stream, b);
        return in_place(stream, b,
                        (when == sim_queued || when == sim_whenever) && line ? STAGED : 0, false);
    }
    if (on_device(to) && on_device(from))
        return queued(stream, b, false);
    if (to.kind == sim_none || from.kind == sim_none)
        return in_place(stream, b, 0, to.kind == sim_none);
    /* Between two pinned ranges, the driver does not return before the copy is done. */
    return queued(stream, b,
                  when == sim_at_once || when == sim_before_return ||
                      !(on_device(to) || on_device(from)));
}

CUresult sim_copy(bool per_thread, CUstream handle, const struct sim_block *block,
                  enum sim_side dst, enum sim_side src, enum sim_when when)
{
    struct sim_stream *stream;
    struct sim_block b = *block;
    struct end to, from;
    CUresult result = sim_stream_enter(handle, per_thread, &stream);
    if (result)
        return result;
    if (b.width && b.height && b.depth) {
        result = look_up_both(&b, dst, src, &to, &from);
        if (!result)
            result = route(stream, &b, to, from, when);
    }
    pthread_mutex_unlock(&sim_lock);
    return result;
}
