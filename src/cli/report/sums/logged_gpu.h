/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs' time by the logs' activity. Reports also have causes, but only of the whole job: with
 * --since, only logs have the time from then on.
 */
#ifndef GF_CLI_REPORT_SUMS_LOGGED_GPU_H
#define GF_CLI_REPORT_SUMS_LOGGED_GPU_H

#include "cli/report/input/job.h"

struct gf_logged_gpu {
    double s, empty_s, copying_s; /* time of all GPUs; without work, and with only copies */
    uint32_t process;             /* one that logged it */
    bool is_several;              /* others did, too */
};

/* Adds an interval's part after job->since. */
void gf_logged_gpu_add(struct gf_logged_gpu *sum, const struct gf_job *job,
                       const struct gf_activity *activity);

#endif
