/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_ONSET_H
#define GF_CLI_REPORT_OUTPUT_ONSET_H

#include "cli/report/input/job.h"

/*
 * Finds the time in a job (from `from` to `to`) from which on stalls took several times as much time
 * as before; *ret_factor tells how many times, at most 1000. Returns 0 if there is no such change.
 */
double gf_onset_find(const struct gf_job *job, double from, double to, double *ret_factor);

#endif
