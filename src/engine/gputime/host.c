/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/host.h"

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
