/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of Python at which a GPU's empty time was spent, by cause. Lines are read less often
 * than samples are taken. So each reading stands for the cause's empty time since the last reading.
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
    uint64_t pending_ns[GF_HOST_CAUSE_COUNT]; /* empty time since the last reading, by cause */
    _Atomic bool locked;                      /* row is being read or written */
    unsigned count;
    struct gf_cause_line row[GF_CAUSE_LINES];
};

/*
 * Adds time in which the GPU was empty for this cause. The cause's next reading takes it. Called on
 * the sampler's thread.
 */
void gf_cause_lines_add(struct gf_cause_lines *lines, enum gf_host_cause cause, uint64_t ns);
/*
 * Records a reading: all time that was added for this cause since its last reading counts for this
 * line. If the table is full, the line is not counted. Called on the sampler's thread.
 */
void gf_cause_lines_see(struct gf_cause_lines *lines, enum gf_host_cause cause,
                        const struct gf_python_line *at);

/* For each cause, the line with the most time; line 0: no line is known. Any thread. */
void gf_cause_lines_read(struct gf_cause_lines *lines,
                         struct gf_cause_line ret[GF_HOST_CAUSE_COUNT]);

#endif
