/* SPDX-License-Identifier: Apache-2.0 */
/* The steps between the program's marks (gpufeed_set_step), and which of them were slow. */
#ifndef GF_CLI_REPORT_SUMS_STEPS_H
#define GF_CLI_REPORT_SUMS_STEPS_H

#include "cli/report/input/job.h"

/* A step that took more than this many times the median is slow. */
#define GF_SLOW_STEP 2

struct gf_step {
    uint64_t step;
    double at, s; /* when the step began; its duration, which is 0 unless has_end */
    uint32_t process, thread;
    bool has_end;      /* the duration is known */
    bool is_open;      /* the step was in progress when the log ended */
    uint64_t stall_us; /* sum of the process's stalls in this step; only for the longest steps */
};

struct gf_steps {
    struct gf_step *list; /* steps with a known end, the longest first, then other steps */
    size_t count, ended, slow;
    double median_s;
};

/* Finds the steps of a job. The list is empty if memory is short. */
struct gf_steps gf_steps_find(const struct gf_job *job);
void gf_steps_free(struct gf_steps *steps);

#endif
