/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/step.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "preload/trace/journal.h"
#include "preload/trace/step_times.h"

#define MARKS 64
#define OLD_NS UINT64_C(1000000000) /* a line is written when its oldest mark has this age */
#define LINE_NS UINT64_C(250000000) /* minimum time between two lines */
/*
 * Maximum size of all lines of marks: an eighth of the log's limit, so that enough is left for
 * stalls.
 */
#define MOST_BYTES ((size_t)8 << 20)

/* Protects `batch` (gf_step_try_lock). A mark is not logged while another thread holds it. */
static _Atomic pid_t holder;

static struct {
    pid_t pid; /* the process that made the marks */
    unsigned count;
    uint64_t skipped; /* number of marks since the last line that did not fit into `marks` */
    uint64_t line_ns; /* time of the last line */
    size_t bytes;     /* bytes of all lines of marks until now */
    struct {
        uint64_t step, ns;
    } marks[MARKS];
} batch;

static void put_marks(struct gf_json *json)
{
    const unsigned count = gf_min(batch.count, (unsigned)MARKS);
    const uint64_t first = batch.marks[0].ns;

    gf_json_micro(json, "start", first / 1000);
    gf_json_begin(json, "steps", '[');
    for (unsigned i = 0; i < count; i++)
        gf_json_size(json, NULL, batch.marks[i].step);
    gf_json_end(json, ']');
    gf_json_begin(json, "after_us", '[');
    for (unsigned i = 0; i < count; i++)
        gf_json_size(json, NULL, gf_max(batch.marks[i].ns, first) / 1000 - first / 1000);
    gf_json_end(json, ']');
    if (batch.skipped)
        gf_json_size(json, "skipped", batch.skipped);
    batch.bytes += json->at;
    if (batch.bytes >= MOST_BYTES)
        gf_json_bool(json, "last", true);
}

/*
 * If no line can be begun, the batch keeps its marks. Once the batch is full, later marks are
 * skipped. So skipped marks are always later than the marks in the next line.
 */
static void log_batch(uint64_t now)
{
    struct gf_line *line = gf_journal_begin("steps");

    batch.line_ns = now;
    if (!line)
        return;
    put_marks(&line->json);
    gf_journal_end(line);
    batch.skipped = 0;
    batch.count = 0;
}

/* Reads batch.count only once, because a child of vfork may change it at any time. */
static void add_mark(uint64_t step, uint64_t ns)
{
    const unsigned at = batch.count;

    if (at >= MARKS) {
        batch.skipped++;
        return;
    }
    batch.marks[at].step = step;
    batch.marks[at].ns = ns;
    batch.count = at + 1;
}

static bool is_due(uint64_t now)
{
    return (batch.count >= MARKS || now - batch.marks[0].ns >= OLD_NS) &&
           now - batch.line_ns >= LINE_NS;
}

void gf_step_log_add(uint64_t step, uint64_t ns)
{
    gf_keep_errno();
    pid_t pid;

    if (!gf_journal_shared() || !gf_step_try_lock(&holder, pid = getpid()))
        return;
    if (batch.pid != pid) {
        batch.pid = pid;
        batch.count = 0;
        batch.skipped = 0;
    }
    if (batch.bytes < MOST_BYTES) {
        add_mark(step, ns);
        if (is_due(ns))
            log_batch(ns);
    }
    gf_store_release(&holder, 0);
}

void gf_step_log_flush(void)
{
    gf_keep_errno();
    const pid_t pid = getpid();
    pid_t none = 0;

    if (!gf_journal_shared() || !gf_cas_acquire(&holder, &none, pid))
        return;
    if (batch.pid == pid && batch.count)
        log_batch(batch.line_ns);
    gf_store_release(&holder, 0);
}

static _Atomic uint64_t current, ended;
/* Times of the first and of the last mark; 0 before the first mark. */
static _Atomic uint64_t first_ns, last_ns;

void gf_step_mark(uint64_t number)
{
    const uint64_t before = gf_exchange_relaxed(&current, number);
    uint64_t none = 0;

    if (number == before)
        return;
    const uint64_t now = gf_now_ns();
    if (before)
        gf_add_relaxed(&ended, 1);
    gf_cas_relaxed(&first_ns, &none, now);
    gf_store_relaxed(&last_ns, now);
    gf_step_times_mark(now, before != 0, number != 0);
    gf_step_log_add(number, now);
}

uint64_t gf_step_current(void)
{
    return gf_load_relaxed(&current);
}

void gf_step_count(struct gf_step_count *ret)
{
    const uint64_t first = gf_load_relaxed(&first_ns), last = gf_load_relaxed(&last_ns);

    *ret = (struct gf_step_count){
        .ended = gf_load_relaxed(&ended),
        .us = last > first ? (last - first) / 1000 : 0,
        .current = gf_load_relaxed(&current),
    };
}
