/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/idle_lines.h"

#include <sched.h>
#include <string.h>

#define TRIES 1000u

static bool lock_lines(struct gf_cause_lines *lines)
{
    for (unsigned i = 0; i < TRIES; i++) {
        bool locked = false;
        if (gf_cas_acquire(&lines->locked, &locked, true))
            return true;
        sched_yield();
    }
    return false;
}

void gf_cause_lines_add(struct gf_cause_lines *lines, enum gf_host_cause cause, uint64_t ns)
{
    lines->pending_ns[cause] += ns;
}

static bool is_same(const struct gf_cause_line *row, enum gf_host_cause cause,
                    const struct gf_python_line *at)
{
    return row->cause == cause && row->at.line == at->line && strcmp(row->at.file, at->file) == 0;
}

static struct gf_cause_line *line_row_of(struct gf_cause_lines *lines, enum gf_host_cause cause,
                                         const struct gf_python_line *at)
{
    for (unsigned i = 0; i < lines->count; i++)
        if (is_same(&lines->row[i], cause, at))
            return &lines->row[i];
    if (lines->count == GF_CAUSE_LINES)
        return NULL;
    struct gf_cause_line *row = &lines->row[lines->count++];
    *row = (struct gf_cause_line){.cause = cause, .at = *at};
    return row;
}

void gf_cause_lines_see(struct gf_cause_lines *lines, enum gf_host_cause cause,
                        const struct gf_python_line *at)
{
    if (!lock_lines(lines))
        return;
    struct gf_cause_line *row = line_row_of(lines, cause, at);
    if (row)
        row->ns += lines->pending_ns[cause];
    lines->pending_ns[cause] = 0;
    gf_store_release(&lines->locked, false);
}

void gf_cause_lines_read(struct gf_cause_lines *lines,
                         struct gf_cause_line ret[GF_HOST_CAUSE_COUNT])
{
    memset(ret, 0, sizeof(*ret) * GF_HOST_CAUSE_COUNT);
    if (!lock_lines(lines))
        return;
    for (unsigned i = 0; i < lines->count; i++) {
        struct gf_cause_line *most = &ret[lines->row[i].cause];
        if (!most->at.line || lines->row[i].ns > most->ns)
            *most = lines->row[i];
    }
    gf_store_release(&lines->locked, false);
}

#define READ_NS UINT64_C(50000000)
#define READ_LEAST_NS (READ_NS / 4) /* shortest time between readings if the cause has changed */

/*
 * Whether the feeding thread waits for Python's lock. If another thread holds the lock and its line
 * can be read, *line becomes this line.
 */
static bool waits_for_lock(const struct gf_host *host, uintptr_t python,
                           struct gf_python_line *line)
{
    struct gf_python_place holders;
    bool is_lock = false;
    const uintptr_t futex = host->feeder.futex,
                    holder = futex ? gf_python_line_lock_holder(futex, &is_lock) : 0;

    if (holder && holder != python && gf_python_line_read(0, holder, &holders))
        *line = holders.line;
    return is_lock;
}

static enum gf_host_cause read_cause(struct gf_host *host, enum gf_host_cause cause,
                                     uintptr_t python, uint64_t now, struct gf_python_line *line)
{
    struct gf_python_place place = {0};
    struct gf_python_line workers;

    if (gf_python_line_read(0, python, &place))
        *line = place.line;
    if (cause != gf_host_waiting && cause != gf_host_data)
        return cause;
    if (cause == gf_host_waiting && waits_for_lock(host, python, line))
        return gf_host_gil;
    if (cause == gf_host_waiting && !place.in_queue)
        return cause;
    cause = gf_workers_read(&host->workers, host->feeder.tid, python, now, &workers);
    /* If the worker's line is unknown, the time counts for the line that is read next. */
    if (cause != gf_host_data)
        *line = workers;
    return cause;
}

enum gf_host_cause gf_host_refine(struct gf_host *host, enum gf_host_cause cause, uintptr_t python,
                                  uint64_t now)
{
    struct gf_python_line line = {.line = 0};
    const uint64_t passed = now - host->read_ns;

    if (passed < (cause == host->from ? READ_NS : READ_LEAST_NS))
        return cause == host->from ? host->to : cause;
    host->from = cause;
    host->to = read_cause(host, cause, python, now, &line);
    host->read_ns = now;
    if (line.line)
        gf_cause_lines_see(&host->lines, host->to, &line);
    return host->to;
}
