/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of Python at which a GPU's empty time was spent, by cause. A line is read less often
 * than samples are taken: each reading stands for the empty time of its cause since the last one.
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
    uint64_t pending_ns[GF_HOST_CAUSE_COUNT]; /* since the last reading */
    _Atomic bool locked;                      /* row is being read or written */
    unsigned count;
    struct gf_cause_line row[GF_CAUSE_LINES];
};

/* Empty time of a cause. The sampler's thread. */
void gf_cause_lines_add(struct gf_cause_lines *lines, enum gf_host_cause cause, uint64_t ns);
/*
 * A reading: what was added for this cause since the last one was spent at that line. If the table
 * is full, the line is not counted. The sampler's thread.
 */
void gf_cause_lines_see(struct gf_cause_lines *lines, enum gf_host_cause cause,
                        const struct gf_python_line *at);

/* Any thread: for each cause the line with most time; line 0: none is known. */
void gf_cause_lines_read(struct gf_cause_lines *lines,
                         struct gf_cause_line ret[GF_HOST_CAUSE_COUNT]);

#endif
