/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_SUMS_ONSET_H
#define GF_CLI_REPORT_SUMS_ONSET_H

#include "cli/report/input/job.h"

struct gf_onset {
    double at;     /* time of the change; 0: there is none */
    double factor; /* factor by which stalls took more time after it, at most 1000 */
    /*
     * Step and rank of the first stall after the change at the call site with the most stalled
     * time; GF_NO_STEP and -1 if unknown.
     */
    int64_t step, rank;
};

/*
 * Finds the time from which on the stalls of a job took several times as much time as before.
 * Ignores stalls before `from` and after `to`. `site` is the call site with the most stalled time.
 */
struct gf_onset gf_onset_find(const struct gf_job *job, double from, double to, int64_t site);

#endif
