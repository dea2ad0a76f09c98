/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/idle_lines.h"

#include "base/brief_lock.h"
#include "base/fmt.h"
#include "base/path.h"

void gf_cause_lines_add(struct gf_cause_lines *lines, enum gf_host_cause cause, uint64_t ns)
{
    lines->pending_ns[cause] += ns;
}

static bool is_same(const struct gf_python_line *a, const struct gf_python_line *b)
{
    return a->line == b->line && strcmp(a->file, b->file) == 0;
}

static struct gf_cause_line *line_row_of(struct gf_cause_lines *lines, enum gf_host_cause cause,
                                         const struct gf_python_line *at)
{
    for (unsigned i = 0; i < lines->count; i++)
        if (lines->row[i].cause == cause && is_same(&lines->row[i].at, at))
            return &lines->row[i];
    if (lines->count == GF_CAUSE_LINES)
        return NULL;
    struct gf_cause_line *row = &lines->row[lines->count++];
    *row = (struct gf_cause_line){.cause = cause, .at = *at};
    return row;
}

static struct gf_idle_path *path_row_of(struct gf_cause_lines *lines, enum gf_host_cause cause,
                                        const char *text)
{
    struct gf_idle_path *least = &lines->path[0];

    for (unsigned i = 0; i < lines->paths; i++) {
        struct gf_idle_path *row = &lines->path[i];
        if (row->cause == cause && strcmp(row->text, text) == 0)
            return row;
        if (row->ns < least->ns)
            least = row;
    }
    if (lines->paths < GF_IDLE_PATHS)
        least = &lines->path[lines->paths++];
    least->cause = cause;
    least->ns = 0;
    gf_fmt(least->text, sizeof(least->text), "%s", text);
    return least;
}

/* A line that was seen in half of the time stays, so that one that is seen more often replaces others. */
static void see_holder(struct gf_cause_line *row, const struct gf_python_line *holder, uint64_t ns)
{
    if (!is_same(&row->holder, holder)) {
        if (2 * row->holder_ns >= row->ns)
            return;
        row->holder = *holder;
        row->holder_ns = 0;
    }
    row->holder_ns += ns;
}

void gf_cause_lines_see(struct gf_cause_lines *lines, enum gf_host_cause cause,
                        const struct gf_python_line *at, const char *path, bool is_own,
                        const struct gf_python_line *holder)
{
    char text[GF_PYTHON_PATH];

    gf_fmt(text, sizeof(text), "...;%s:%s", gf_path_file_name(at->file), at->function);
    if (!gf_brief_lock(&lines->locked))
        return;
    path_row_of(lines, cause, *path ? path : text)->ns += lines->pending_ns[cause];
    struct gf_cause_line *row = line_row_of(lines, cause, at);
    if (row) {
        row->ns += lines->pending_ns[cause];
        row->lately_ns += lines->pending_ns[cause];
        row->own_ns += is_own ? lines->pending_ns[cause] : 0;
        if (holder && holder->line)
            see_holder(row, holder, lines->pending_ns[cause]);
    }
    lines->pending_ns[cause] = 0;
    gf_store_release(&lines->locked, false);
}

void gf_cause_lines_age(struct gf_cause_lines *lines)
{
    if (!gf_brief_lock(&lines->locked))
        return;
    for (unsigned i = 0; i < lines->count; i++)
        lines->row[i].lately_ns /= 2;
    gf_store_release(&lines->locked, false);
}

/* A line of a library shows that the program's line was not found, or that the program has ended. */
static bool is_better(const struct gf_cause_line *row, const struct gf_cause_line *than)
{
    const bool is_own = !gf_path_is_python_library(row->at.file),
               was_own = !gf_path_is_python_library(than->at.file);

    if (!than->at.line || is_own != was_own)
        return !than->at.line || is_own;
    return row->lately_ns > than->lately_ns ||
           (row->lately_ns == than->lately_ns && row->ns > than->ns);
}

/*
 * Whether the line had more time of another cause. The thread may compute there after it has
 * submitted work in quick succession, and a sample cannot tell when it stopped to submit.
 */
static bool follows_launches(const struct gf_cause_lines *lines, const struct gf_cause_line *row)
{
    for (unsigned i = 0; i < lines->count; i++) {
        const struct gf_cause_line *other = &lines->row[i];
        if (row->cause == gf_host_launches && other->cause != gf_host_gpu_wait &&
            other->ns > row->ns && is_same(&row->at, &other->at))
            return true;
    }
    return false;
}

void gf_cause_lines_read(struct gf_cause_lines *lines,
                         struct gf_cause_line ret[GF_HOST_CAUSE_COUNT])
{
    memset(ret, 0, sizeof(*ret) * GF_HOST_CAUSE_COUNT);
    if (!gf_brief_lock(&lines->locked))
        return;
    for (unsigned i = 0; i < lines->count; i++) {
        struct gf_cause_line *most = &ret[lines->row[i].cause];
        if (is_better(&lines->row[i], most) && !follows_launches(lines, &lines->row[i]))
            *most = lines->row[i];
    }
    for (unsigned i = 0; i < GF_HOST_CAUSE_COUNT; i++)
        if (4 * ret[i].holder_ns < 3 * ret[i].ns)
            ret[i].holder.line = 0;
    gf_store_release(&lines->locked, false);
}

bool gf_idle_path_read(struct gf_cause_lines *lines, unsigned number, struct gf_idle_path *ret)
{
    if (!gf_brief_lock(&lines->locked))
        return false;
    const bool found = number < lines->paths;
    if (found)
        *ret = lines->path[number];
    gf_store_release(&lines->locked, false);
    return found;
}

#define READ_NS UINT64_C(20000000)
#define WAIT_NS UINT64_C(50000000)
#define READ_LEAST_NS (READ_NS / 2) /* if the thread has entered or left a driver call */
#define COST_TIMES 200u /* no reading for this many times the CPU time of the last one */
/* A thread that submits work less often does other work meanwhile. */
#define OWN_WORK_NS UINT64_C(1000000)
/* An optimizer of parameters on the GPU submits work more often. */
#define OPTIMIZER_NS UINT64_C(20000000)

struct host_reading {
    struct gf_host *host;
    struct gf_host_sample sample; /* of the thread that decides */
    struct gf_feeder_facts facts;
    enum gf_host_cause cause;
    struct gf_python_line line;   /* its `line` is 0 if unknown */
    struct gf_python_line holder; /* of the lock that the thread waits for; the same */
    char path[GF_PYTHON_PATH];    /* of the thread that submits work; "" if unknown */
    bool in_gap;                  /* the gap was still open after the system call was read */
    bool has_workers;             /* the children may be what the thread waits for */
    bool is_own;                  /* the thread runs code of the program that is not PyTorch's */
};

/* Reads the facts of the thread that decides. Returns whether the Python frames are its own. */
static bool read_thread(struct host_reading *r)
{
    struct gf_host_sample *const sample = &r->sample;
    bool is_lock = false;

    if (sample->starter_python && !gf_python_line_has_frames(sample->python)) {
        sample->python_tid = sample->starter;
        sample->python = sample->starter_python;
    }
    /* A server may use a thread for each request, which ends after it. */
    if (gf_feeder_read(&r->host->feeder, sample->tid, &r->facts) == -ENOENT) {
        sample->tid = sample->starter;
        sample->python_tid = sample->starter_python ? sample->starter : 0;
        sample->python = sample->starter_python;
        gf_feeder_read(&r->host->feeder, sample->tid, &r->facts);
    }
    if (!sample->python_tid || sample->python_tid == sample->tid)
        return sample->python_tid;
    /* A thread of PyTorch's autograd, which feeds the GPU in turns, waits for the Python thread. */
    if (r->facts.wait.futex)
        gf_python_line_lock_holder(r->facts.wait.futex, &is_lock);
    switch (is_lock ? gf_wait_running : r->facts.wait.kind) {
    case gf_wait_futex:
    case gf_wait_lock:
    case gf_wait_unknown:
    case gf_wait_unread:
        gf_feeder_read(&r->host->python_feeder, sample->python_tid, &r->facts);
        return true;
    default:
        return false;
    }
}

/*
 * Whether the thread waits for Python's lock. If another thread holds the lock and its line can be
 * read, it becomes the line of the reading.
 */
static bool waits_for_python(struct host_reading *r)
{
    struct gf_python_place holders;
    bool is_lock = false;
    const uintptr_t futex = r->facts.wait.futex,
                    holder = futex ? gf_python_line_lock_holder(futex, &is_lock) : 0;

    if (holder && holder != r->sample.python && gf_python_line_read(0, holder, &holders, NULL))
        r->line = r->holder = holders.line;
    return is_lock;
}

static bool may_wait_for_workers(enum gf_host_cause cause, const struct gf_python_place *place)
{
    return cause == gf_host_data || cause == gf_host_process || cause == gf_host_queue ||
           cause == gf_host_pipe ||
           (cause == gf_host_thread && /* of a pool, perhaps */
            gf_wait_has_frame("concurrent/", "", place->frames, place->count));
}

static enum gf_host_cause cause_of_facts(struct host_reading *r, bool is_own,
                                         const struct gf_python_place *place)
{
    enum gf_wait_kind kind = r->facts.wait.kind;

    if (r->facts.starved)
        return gf_host_preempted;
    if (kind == gf_wait_running && place->collects)
        return gf_host_gc;
    if (waits_for_python(r))
        return gf_host_gil;
    if (is_own)
        kind = gf_feeder_kind(0, r->sample.python, &r->facts);
    return gf_wait_cause(kind, place);
}

#define CARRY_NS UINT64_C(1000000000)

/* The frames of deep or quick code cannot always be read. For a while, what it is a part of goes on. */
static void carry_on(struct host_reading *r, bool is_own)
{
    struct gf_host *host = r->host;

    if (is_own && r->line.line) {
        host->frames_ns = r->sample.now;
        host->frames_tid = r->sample.tid;
    } else if (r->cause == gf_host_computing && is_own && gf_wait_is_by_frames(host->cause) &&
               host->frames_tid == r->sample.tid && r->sample.now - host->frames_ns < CARRY_NS) {
        r->cause = host->cause;
    }
}

/*
 * PyTorch compiles the backward pass in a thread of autograd, when it first runs. The thread that
 * called backward() waits for it; the thread of autograd, which feeds the GPU, computes. Other threads are
 * not read for other waits: a long reading makes the next one late, and until then all gaps get its cause.
 */
static void look_behind(struct host_reading *r, bool is_own)
{
    struct gf_python_place behind;

    if (r->cause != (is_own ? gf_host_thread : gf_host_computing) ||
        !gf_python_line_read_backward(r->sample.python, &behind))
        return;
    const enum gf_host_cause cause = gf_wait_cause(gf_wait_running, &behind);
    if (gf_wait_is_by_frames(cause))
        r->cause = cause;
}

/* The line is that of the wait only if the thread is still in the same call afterwards. */
static void read_host(void *closure)
{
    struct host_reading *r = closure;
    struct gf_python_place place = {0};
    const bool is_own = read_thread(r);

    r->in_gap = !r->sample.gap || !gf_load_acquire(&r->sample.gap->ended_ns);
    if (gf_python_line_read(0, r->sample.python, &place, r->path) &&
        (!is_own || gf_feeder_is_same(r->sample.python_tid, &r->facts)))
        r->line = place.line;
    else
        *r->path = '\0';
    r->is_own = is_own && !gf_wait_prepares_work(&place) && r->sample.between_ns >= OWN_WORK_NS;
    const bool is_for_backward =
        gf_wait_has_frame("torch/autograd/", "backward", place.frames, place.count);
    if (!is_own)
        place.count = place.all = 0;
    r->cause = cause_of_facts(r, is_own, &place);
    carry_on(r, is_own);
    r->has_workers = may_wait_for_workers(r->cause, &place);
    if (is_for_backward && !r->has_workers)
        look_behind(r, is_own);
    if (is_own && r->cause == gf_host_lock && r->facts.wait.futex)
        gf_python_line_read_holder(r->sample.python, r->facts.wait.futex, &r->holder);
}

static void ask_workers(struct host_reading *r)
{
    struct gf_python_line line;
    const enum gf_host_cause cause =
        gf_workers_read(&r->host->workers, r->sample.tid, r->sample.python, r->sample.now, &line);

    if (cause == gf_host_data)
        return; /* no child explains the wait */
    /* A child at the other end of a pipe may serve one request at a time: more of them do not help. */
    if (r->cause == gf_host_pipe && (cause == gf_host_few_workers || cause == gf_host_transform))
        return;
    r->cause = cause;
    r->line = line;
}

static enum gf_host_cause refine(enum gf_host_cause cause, const struct gf_host_sample *sample)
{
    if (sample->call == gf_host_driver ||
        (sample->call == gf_host_gpu_wait && cause != gf_host_preempted))
        return sample->call;
    /* While a thread waits for another one, such as autograd's, that one submits the work. */
    if (sample->launch_bound && (cause == gf_host_thread || cause == gf_host_waiting))
        return sample->after_wait ? gf_host_gpu_wait : gf_host_launches;
    if (cause == gf_host_optimizer && sample->between_ns < OPTIMIZER_NS)
        cause = gf_host_computing;
    if (cause != gf_host_computing && cause != gf_host_loader)
        return cause;
    return sample->after_wait ? gf_host_gpu_wait : sample->launch_bound ? gf_host_launches : cause;
}

/*
 * The line of a gap after a wait is that of the wait, which opened the gap. If the thread waits
 * again and again, that is where it is now, since the wait that was seen last may be another one.
 * A thread that runs changes its line all the time, so its time waits for the next line.
 */
static void record_line(struct host_reading *r)
{
    const enum gf_host_cause cause = refine(r->cause, &r->sample);

    if (cause == gf_host_gpu_wait && cause != r->sample.call && !r->sample.wait_is_near) {
        r->line = r->host->wait_line;
        *r->path = '\0';
    }
    if (r->line.line)
        gf_cause_lines_see(&r->host->lines, cause, &r->line, r->path, r->is_own,
                           cause == gf_host_lock || cause == gf_host_gil ? &r->holder : NULL);
    else if (r->facts.wait.kind != gf_wait_running && !r->has_workers)
        r->host->lines.pending_ns[cause] = 0; /* it counts for no line */
}

static void read_now(struct gf_host *host, const struct gf_host_sample *sample)
{
    struct host_reading r = {.host = host, .sample = *sample, .cause = gf_host_other};

    host->read_ns = sample->now;
    host->call = sample->call;
    if (!gf_measured_run(read_host, &r, &host->cost_ns))
        return;
    /* After the gap, the thread does something else; but short gaps are all over by then. */
    if (!r.in_gap && !sample->launch_bound && host->cause != gf_host_other)
        return;
    if (r.has_workers)
        ask_workers(&r);
    host->cause = r.cause;
    host->at = r.line;
    record_line(&r);
}

void gf_host_see_wait(struct gf_host *host, uintptr_t python, uintptr_t starter, uint64_t now)
{
    struct gf_python_place place;

    if (now - host->wait_ns < WAIT_NS)
        return;
    host->wait_ns = now;
    if (gf_python_line_read(0, python, &place, NULL) ||
        gf_python_line_read(0, starter, &place, NULL))
        host->wait_line = place.line;
}

enum gf_host_cause gf_host_find_cause(struct gf_host *host, const struct gf_host_sample *sample)
{
    const uint64_t passed = sample->now - host->read_ns,
                   least = sample->call == host->call ? READ_NS : READ_LEAST_NS;

    if (!host->read_ns)
        host->cause = gf_host_other;
    if (!host->read_ns || passed >= gf_max(least, COST_TIMES * host->cost_ns))
        read_now(host, sample);
    return refine(host->cause, sample);
}
