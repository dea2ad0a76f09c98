/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs' time from --since on, by the logs' activity. Reports have only sums of the whole job. */
#ifndef GF_CLI_REPORT_SUMS_RECENT_GPU_H
#define GF_CLI_REPORT_SUMS_RECENT_GPU_H

#include "cli/report/input/job.h"

struct gf_recent_gpu {
    double s, empty_s, copying_s; /* time of all GPUs; the parts without work, and with only copies */
};

/* Adds the part of an interval after job->since; nothing if that is 0. */
void gf_recent_gpu_add(struct gf_recent_gpu *sum, const struct gf_job *job,
                       const struct gf_activity *activity);

#endif
