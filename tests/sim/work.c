/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How work runs. Each stream has a thread, created with its first operation, which runs the
 * operations in order. Before each operation, it waits for the operations of other streams on which
 * this one depends.
 */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct sim_op *sim_op_new(void (*run)(struct sim_op *), size_t payload)
{
    struct sim_op *op = calloc(1, sizeof *op + payload);
    if (!op)
        abort();
    op->run = run;
    return op;
}

static void add_dep(struct sim_dep **deps, unsigned *count, struct sim_stream *on, uint64_t seq)
{
    if (on->completed >= seq)
        return;
    struct sim_dep *grown = realloc(*deps, (*count + 1) * sizeof **deps);
    if (!grown)
        abort();
    grown[*count] = (struct sim_dep){on, seq};
    *deps = grown;
    ++*count;
}

static void deadline_after(struct timespec *ret, uint64_t ns)
{
    clock_gettime(CLOCK_REALTIME, ret);
    ns += (uint64_t)ret->tv_nsec;
    ret->tv_sec += (time_t)(ns / 1000000000u);
    ret->tv_nsec = (long)(ns % 1000000000u);
}

/*
 * The caller holds the lock. Waits for the operations on which this one depends. A thread that
 * waits for this operation also counts as waiting for those.
 */
static void wait_deps(struct sim_stream *stream, struct sim_op *op)
{
    for (unsigned i = 0; i < op->deps; i++) {
        struct sim_dep *dep = &op->dep[i];
        while (dep->stream->completed < dep->seq) {
            if (stream->wanted >= op->seq && dep->stream->wanted < dep->seq) {
                dep->stream->wanted = dep->seq;
                pthread_cond_broadcast(&sim_done);
            }
            pthread_cond_wait(&sim_done, &sim_lock);
        }
    }
}

/*
 * The caller holds the lock. With SIM_DMA=late, postpones the operation until a thread waits for
 * it, or until no thread has for some time.
 */
static void put_off(struct sim_stream *stream, struct sim_op *op)
{
    struct timespec deadline;
    deadline_after(&deadline, sim_config.late_ms * 1000000ull);
    while (stream->wanted < op->seq)
        if (pthread_cond_timedwait(&sim_done, &sim_lock, &deadline) == ETIMEDOUT)
            return;
}

/*
 * SIM_BUSY names a file for the exact GPU time, which is written at exit: nanoseconds since the
 * first operation, and nanoseconds in which an operation was unfinished.
 */
static struct {
    uint64_t first, since, busy;
    unsigned unfinished;
} record;

static void record_submitted(void) /* locked */
{
    const uint64_t now = sim_now_ns();
    if (!record.first)
        record.first = now;
    if (record.unfinished++ == 0)
        record.since = now;
}

static void record_completed(void) /* locked */
{
    if (--record.unfinished == 0)
        record.busy += sim_now_ns() - record.since;
}

__attribute__((destructor)) static void write_record(void)
{
    char line[96];
    const char *path = getenv("SIM_BUSY");
    const int fd = path && record.first ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644) : -1;
    if (fd < 0)
        return;
    const uint64_t now = sim_now_ns(),
                   busy = record.busy + (record.unfinished ? now - record.since : 0);
    const int length = snprintf(line, sizeof line, "%llu %llu\n",
                                (unsigned long long)(now - record.first), (unsigned long long)busy);
    if (write(fd, line, (size_t)length) != length)
        abort();
    close(fd);
}

void sim_take_turn(struct sim_context *context, uint64_t ticket)
{
    while (context->host_served + 1 != ticket)
        pthread_cond_wait(&sim_done, &sim_lock);
}

void sim_end_turn(struct sim_context *context)
{
    context->host_served++;
    pthread_cond_broadcast(&sim_done);
}

/*
 * The caller holds the lock, which is released while the operation runs. Operations after a fault
 * are skipped.
 */
static void run(struct sim_stream *stream, struct sim_op *op)
{
    struct sim_context *context = stream->context;
    if (op->host) {
        if (!op->ticket)
            op->ticket = ++context->host_tickets;
        sim_take_turn(context, op->ticket);
    }
    bool broken = context->sticky;
    pthread_mutex_unlock(&sim_lock);
    if (!broken || op->always)
        op->run(op);
    pthread_mutex_lock(&sim_lock);
    if (op->host)
        sim_end_turn(context);
}

static void *work(void *closure)
{
    struct sim_stream *stream = closure;
    prctl(PR_SET_NAME, "cuda-sim-stream");
    pthread_mutex_lock(&sim_lock);
    while (stream->head || !stream->dead) {
        struct sim_op *op = stream->head;
        if (!op) {
            pthread_cond_wait(&stream->work, &sim_lock);
            continue;
        }
        wait_deps(stream, op);
        if (op->late && sim_config.late)
            put_off(stream, op);
        run(stream, op);
        stream->head = op->next;
        if (!stream->head)
            stream->tail = NULL;
        stream->completed = op->seq;
        record_completed();
        pthread_cond_broadcast(&sim_done);
        free(op->dep);
        free(op);
    }
    stream->started = false;
    pthread_cond_broadcast(&sim_done);
    pthread_mutex_unlock(&sim_lock);
    return NULL;
}

/*
 * A test's filter may refuse libc's mapping for a stack. The driver needs no thread for a new
 * stream, so the simulator tries its own mapping.
 */
#define STACK ((size_t)256 << 10)

static void use_own_stack(pthread_attr_t *attr)
{
    void *const stack =
        mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack != MAP_FAILED)
        pthread_attr_setstack(attr, stack, STACK);
}

/*
 * The caller holds the lock. The stream's thread blocks signals, so that the program's threads
 * handle them.
 */
static void start(struct sim_stream *stream)
{
    pthread_t thread;
    sigset_t all, before;
    pthread_attr_t attr;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    /*
     * Tries again, because creating a thread fails while another thread is in execve, or on a machine
     * that has no more threads. A failure sets errno.
     */
    const int error = errno;
    for (int tries = 0; pthread_create(&thread, &attr, work, stream) != 0; tries++) {
        if (tries == 1000)
            abort();
        if (tries == 0)
            use_own_stack(&attr);
        sim_sleep_ns(1000000);
    }
    errno = error;
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    stream->started = true;
}

/* Adds what the stream's next operation waits for: results of other streams' events. */
static void add_pending(struct sim_op *op, const struct sim_stream *stream)
{
    for (unsigned i = 0; i < stream->pendings; i++)
        add_dep(&op->dep, &op->deps, stream->pending[i].stream, stream->pending[i].seq);
}

/*
 * The legacy stream and the blocking streams wait for each other, in the order of the calls. The
 * legacy stream also waits for events for which a blocking stream waits (seen on an H200).
 */
static void legacy_order(struct sim_stream *stream, struct sim_op *op)
{
    struct sim_context *context = stream->context;
    if (stream->flags & CU_STREAM_NON_BLOCKING)
        return;
    if (stream != context->legacy) {
        if (context->legacy)
            add_dep(&op->dep, &op->deps, context->legacy, context->legacy->submitted);
        return;
    }
    for (struct sim_stream *s = context->streams; s; s = s->next)
        if (s != stream && !(s->flags & CU_STREAM_NON_BLOCKING)) {
            add_dep(&op->dep, &op->deps, s, s->submitted);
            add_pending(op, s);
        }
}

uint64_t sim_submit(struct sim_stream *stream, struct sim_op *op)
{
    op->seq = ++stream->submitted;
    record_submitted();
    op->context = stream->context;
    legacy_order(stream, op);
    add_pending(op, stream);
    free(stream->pending);
    stream->pending = NULL;
    stream->pendings = 0;
    if (op->host && !stream->tail && !op->deps)
        op->ticket = ++stream->context->host_tickets;
    if (stream->tail)
        stream->tail->next = op;
    else
        stream->head = op;
    stream->tail = op;
    if (!stream->started)
        start(stream);
    pthread_cond_signal(&stream->work);
    return op->seq;
}

void sim_stream_depend(struct sim_stream *stream, struct sim_stream *on, uint64_t seq)
{
    add_dep(&stream->pending, &stream->pendings, on, seq);
}

void sim_want(struct sim_stream *stream, uint64_t seq)
{
    if (stream->wanted < seq) {
        stream->wanted = seq;
        pthread_cond_broadcast(&sim_done);
    }
}

void sim_wait(struct sim_stream *stream, uint64_t seq)
{
    sim_want(stream, seq);
    while (stream->completed < seq)
        pthread_cond_wait(&sim_done, &sim_lock);
}

void sim_break(struct sim_context *context, CUresult error)
{
    pthread_mutex_lock(&sim_lock);
    context->sticky = error;
    pthread_mutex_unlock(&sim_lock);
}

static void await_own(struct sim_stream *stream)
{
    sim_wait(stream, stream->submitted);
    for (unsigned i = 0; i < stream->pendings; i++)
        sim_wait(stream->pending[i].stream, stream->pending[i].seq);
}

/*
 * A wait for the legacy stream also waits for the blocking streams. A wait for a blocking stream
 * does not wait for the legacy stream.
 */
void sim_wait_stream(struct sim_stream *stream)
{
    await_own(stream);
    if (stream == stream->context->legacy)
        for (struct sim_stream *s = stream->context->streams; s; s = s->next)
            if (!(s->flags & CU_STREAM_NON_BLOCKING))
                await_own(s);
}

static bool is_own_done(const struct sim_stream *stream)
{
    if (stream->completed < stream->submitted)
        return false;
    for (unsigned i = 0; i < stream->pendings; i++)
        if (stream->pending[i].stream->completed < stream->pending[i].seq)
            return false;
    return true;
}

bool sim_stream_idle(struct sim_stream *stream)
{
    sim_want(stream, stream->submitted);
    if (!is_own_done(stream))
        return false;
    if (stream != stream->context->legacy)
        return true;
    for (struct sim_stream *s = stream->context->streams; s; s = s->next)
        if (!(s->flags & CU_STREAM_NON_BLOCKING) && !is_own_done(s))
            return false;
    return true;
}

void sim_wait_context(struct sim_context *context)
{
    for (struct sim_stream *s = context->streams; s; s = s->next)
        sim_wait(s, s->submitted);
}

void sim_wait_device(int device)
{
    for (struct sim_context *c = sim_contexts; c; c = c->next)
        if (c->device == device && !c->dead)
            sim_wait_context(c);
}
