/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records which lines of Python the program executed while a GPU was empty, and for how long, by
 * cause. A line is read less often than samples are taken. So a line that is read gets all empty
 * time of its cause since the previous line was read for this cause.
 */
#ifndef GF_ENGINE_GPUTIME_CAUSE_LINES_H
#define GF_ENGINE_GPUTIME_CAUSE_LINES_H

#include "engine/gputime/python_line.h"
#include "engine/gputime/shares.h"

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

#endif
