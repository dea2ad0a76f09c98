/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/copy_waits.h"

#include "base/brief_lock.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/path.h"
#include "preload/trace/python.h"

#define FRAMES 12u /* a library's own frames lie between the copy and the program's line */
#define SHARE 100u /* reading lines may take one part in this many of the waits */
#define COST_NS UINT64_C(20000) /* the assumed duration of a reading before the first one */
#define COST_MOST_NS UINT64_C(1000000)
#define WEIGHT 256u          /* the weight of a wait that stands for itself only */
#define LINK_BYTES_PER_NS 8u /* a slow link; the transfer itself is no wait for earlier work */

struct sum {
    _Atomic uint64_t copies, bytes, ns;
};

/* A row's number of copies is counted in parts of WEIGHT. */
static struct {
    _Atomic uint64_t threshold_ns;
    _Atomic uint64_t cost_ns; /* mean duration of a reading; 0 before the first one */
    struct sum all[2];        /* index 1: copies to the device */
    _Atomic bool busy;        /* a thread uses the members below */
    unsigned count;
    struct gf_copy_wait_line row[GF_COPY_WAIT_LINES];
} waits;

/* A copy of the calling thread that is queued behind unfinished work. */
static __thread struct {
    uintptr_t stream;
    uint64_t bytes; /* 0: no copy is queued */
    uint64_t submitted;
    bool is_awaited; /* the thread waits for the copy now */
} queued;

void gf_copy_waits_start(uint64_t threshold_ns)
{
    gf_store_relaxed(&waits.threshold_ns, threshold_ns);
}

bool gf_copy_waits_wanted(void)
{
    return gf_load_relaxed(&waits.threshold_ns) != 0;
}

/*
 * Returns how many waits this one stands for, in parts of WEIGHT. 0: its line is not read. A wait
 * is chosen with a probability in proportion to its length, so the expected sums are exact.
 */
static uint64_t choose_weight(uint64_t ns)
{
    static __thread uint64_t random;
    const uint64_t cost = gf_max(gf_load_relaxed(&waits.cost_ns), COST_NS / 4);
    const uint64_t allowed = gf_max(ns / SHARE, UINT64_C(1));

    if (allowed >= cost)
        return WEIGHT;
    return gf_random(&random) % cost < allowed ? WEIGHT * cost / allowed : 0;
}

static void note_cost(uint64_t ns)
{
    const uint64_t now = gf_min(ns, COST_MOST_NS), before = gf_load_relaxed(&waits.cost_ns);
    gf_store_relaxed(&waits.cost_ns, before ? (7 * before + now) / 8 : now);
}

/*
 * Reads the innermost line of the program's own code; without one, the innermost line. The frames
 * need 4 KiB of stack, so they are apart from the caller's.
 */
static __attribute__((noinline)) bool read_line(struct gf_python_line *ret)
{
    struct gf_pystack_frame frame[FRAMES];
    size_t count = gf_python_frames(frame, 1);

    if (!count)
        return false;
    if (gf_path_is_python_library(frame->file))
        count = gf_python_frames(frame, FRAMES);
    if (!count)
        return false;
    const struct gf_pystack_frame *found =
        &frame[gf_pystack_own_frame(frame, count, count < FRAMES)];
    gf_path_copy_end(found->file, ret->file, sizeof(ret->file));
    gf_fmt(ret->function, sizeof(ret->function), "%s", found->function);
    ret->line = found->line;
    return true;
}

static bool is_same(const struct gf_copy_wait_line *a, const struct gf_copy_wait_line *b)
{
    return a->at.line == b->at.line && a->to_device == b->to_device &&
           strcmp(a->at.file, b->at.file) == 0 && strcmp(a->at.function, b->at.function) == 0;
}

/* NULL: the table is full. */
static struct gf_copy_wait_line *row_of(const struct gf_copy_wait_line *line)
{
    for (unsigned i = 0; i < waits.count; i++)
        if (is_same(&waits.row[i], line))
            return &waits.row[i];
    if (waits.count == GF_COPY_WAIT_LINES)
        return NULL;
    waits.row[waits.count] = *line;
    waits.row[waits.count].sum = (struct gf_copy_wait_sum){0};
    return &waits.row[waits.count++];
}

/* If another thread uses the table, the line is not recorded. */
static void add_line(const struct gf_copy_wait_line *line)
{
    if (gf_exchange_acquire(&waits.busy, true))
        return;
    struct gf_copy_wait_line *row = row_of(line);
    if (row) {
        row->sum.copies += line->sum.copies;
        row->sum.bytes += line->sum.bytes;
        row->sum.ns += line->sum.ns;
    }
    gf_store_release(&waits.busy, false);
}

static GF_COLD void record_wait(bool to_device, uint64_t bytes, uint64_t ns)
{
    struct sum *sum = &waits.all[to_device];
    struct gf_copy_wait_line line = {.to_device = to_device};
    const uint64_t weight = choose_weight(ns);

    gf_add_relaxed(&sum->copies, 1);
    gf_add_relaxed(&sum->bytes, bytes);
    gf_add_relaxed(&sum->ns, ns);
    if (!weight)
        return;
    const uint64_t begun = gf_now_ns();
    const bool found = read_line(&line.at);
    note_cost(gf_now_ns() - begun);
    line.sum = (struct gf_copy_wait_sum){weight, bytes * weight / WEIGHT, ns * weight / WEIGHT};
    if (found)
        add_line(&line);
}

void gf_copy_waits_add(bool to_device, uint64_t bytes, uint64_t ns)
{
    const uint64_t threshold = gf_load_relaxed(&waits.threshold_ns);

    if (gf_unlikely(threshold && ns >= threshold))
        record_wait(to_device, bytes, ns);
}

void gf_copy_waits_queued(uintptr_t stream, uint64_t bytes, uint64_t submitted)
{
    queued.stream = stream;
    queued.bytes = submitted ? bytes : 0;
    queued.submitted = submitted;
}

void gf_copy_waits_expect(uintptr_t stream, uint64_t submitted)
{
    queued.is_awaited = queued.bytes && queued.stream == stream && queued.submitted == submitted;
}

void gf_copy_waits_waited(uint64_t ns)
{
    const uint64_t transfer = queued.bytes / LINK_BYTES_PER_NS;
    if (gf_unlikely(queued.is_awaited) && ns > transfer)
        gf_copy_waits_add(true, queued.bytes, ns - transfer);
}

void gf_copy_waits_forget(void)
{
    queued.is_awaited = false;
    queued.bytes = 0;
}

static void read_sum(struct sum *sum, struct gf_copy_wait_sum *ret)
{
    ret->copies = gf_load_relaxed(&sum->copies);
    ret->bytes = gf_load_relaxed(&sum->bytes);
    ret->ns = gf_load_relaxed(&sum->ns);
}

void gf_copy_waits_read(struct gf_copy_waits *ret)
{
    ret->lines = 0;
    read_sum(&waits.all[true], &ret->to_device);
    read_sum(&waits.all[false], &ret->from_device);
    if (!gf_brief_lock(&waits.busy))
        return;
    ret->lines = waits.count;
    for (unsigned i = 0; i < waits.count; i++) {
        ret->line[i] = waits.row[i];
        ret->line[i].sum.copies = (waits.row[i].sum.copies + WEIGHT / 2) / WEIGHT;
    }
    gf_store_release(&waits.busy, false);
}
