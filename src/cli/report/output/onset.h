/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_ONSET_H
#define GF_CLI_REPORT_OUTPUT_ONSET_H

#include "cli/report/input/job.h"

/*
 * The time from which on stalls took several times as much time as before. *ret_factor: how many
 * times, at most 1000. 0 if the time before `from` to `to` shows no such change: then stalls began
 * with the job, or are even.
 */
double gf_onset_find(const struct gf_job *job, double from, double to, double *ret_factor);

#endif
