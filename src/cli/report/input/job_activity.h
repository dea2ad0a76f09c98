/* SPDX-License-Identifier: Apache-2.0 */
/* Adds the log's event `activity` to a job: a GPU's states and copies over time. */
#ifndef GF_CLI_REPORT_INPUT_JOB_ACTIVITY_H
#define GF_CLI_REPORT_INPUT_JOB_ACTIVITY_H

#include "cli/report/input/event.h"
#include "cli/report/input/job.h"

/* Impossible values count as 0. An event without a time is ignored. */
void gf_job_activity_add(struct gf_job *job, uint32_t process, const struct gf_event *event);

#endif
