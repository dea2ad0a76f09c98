/* SPDX-License-Identifier: Apache-2.0 */
/* What the host did, by line of Python. */
#ifndef GF_ENGINE_GPUTIME_IDLE_LINES_H
#define GF_ENGINE_GPUTIME_IDLE_LINES_H

#include "engine/gputime/feeder.h"
#include "engine/gputime/python_line.h"
#include "engine/gputime/shares.h"
#include "engine/gputime/workers.h"

/*
 * Records which lines of Python the program executed while a GPU was empty, and for how long, by
 * cause. A line is read less often than samples are taken. So a line that is read gets all empty
 * time of its cause since the previous line was read for this cause.
 */

#define GF_CAUSE_LINES 48u

struct gf_cause_line {
    enum gf_host_cause cause;
    uint64_t ns;
    struct gf_python_line at;
};

struct gf_cause_lines {
    /* For each cause, the empty time since a line was last read for it. */
    uint64_t pending_ns[GF_HOST_CAUSE_COUNT];
    _Atomic bool locked; /* true while a thread reads or writes `row` */
    unsigned count;
    struct gf_cause_line row[GF_CAUSE_LINES];
};

/*
 * Adds time in which the GPU was empty for this cause. The time counts for the line that is read
 * next for this cause. Called on the sampler's thread.
 */
void gf_cause_lines_add(struct gf_cause_lines *lines, enum gf_host_cause cause, uint64_t ns);
/*
 * Records that a line was read: all time that was added for this cause since its previous line was
 * read counts for this line. If the table is full, the line is ignored. Called on the sampler's
 * thread.
 */
void gf_cause_lines_see(struct gf_cause_lines *lines, enum gf_host_cause cause,
                        const struct gf_python_line *at);

/*
 * Sets ret[cause] to the line with the most time; its `line` is 0 if no line is known. May be
 * called on any thread.
 */
void gf_cause_lines_read(struct gf_cause_lines *lines,
                         struct gf_cause_line ret[GF_HOST_CAUSE_COUNT]);

/*
 * Finds what the host did while a GPU was empty, in more detail than the state of the feeding
 * thread shows. It reads the line of Python that the thread executes, the holder of Python's lock,
 * and the state of the child processes whose data the thread waits for. Used on the sampler's
 * thread only.
 */

struct gf_host {
    struct gf_feeder feeder;
    struct gf_workers workers;
    struct gf_cause_lines lines;
    uint64_t read_ns; /* time of the last detailed reading */
    /* The reading replaced the cause `from` by the more exact cause `to`. */
    enum gf_host_cause from, to;
};

/*
 * Returns a more exact cause for `cause`. Makes a detailed reading at most 20 times per second
 * while the cause stays the same; between readings, returns the last result. python: the address of
 * the feeding thread's PyThreadState; 0: unknown.
 */
enum gf_host_cause gf_host_refine(struct gf_host *host, enum gf_host_cause cause, uintptr_t python,
                                  uint64_t now);

#endif
