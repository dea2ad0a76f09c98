/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_SUMS_STEP_ONSET_H
#define GF_CLI_REPORT_SUMS_STEP_ONSET_H

#include "cli/report/sums/steps.h"

struct gf_step_onset {
    uint64_t step; /* the first slower step; 0 if steps did not become slower */
    double at;
    double before_s, after_s; /* median durations of the steps before `step`, and from `step` on */
};

/*
 * Finds the step from which on a rank's steps took longer than before. Rank -1: finds the step for
 * the job, if at least half of all processes became slower.
 */
struct gf_step_onset gf_step_onset_find(const struct gf_job *job, const struct gf_steps *steps,
                                        int64_t rank);

#endif
