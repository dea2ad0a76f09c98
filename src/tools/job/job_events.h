/* SPDX-License-Identifier: Apache-2.0 */
/* Adds lines of a log to a job. */
#pragma once

#include "tools/job/event.h"
#include "tools/job/job.h"

/*
 * The processes of one log, by pid. Each log needs a separate struct, because processes on
 * different hosts may have the same pid. The caller initializes it with zeros.
 */
struct gf_job_log {
    struct gf_text_pool keys;
    uint32_t *processes; /* the process + 1, by the key's number; 0: none yet */
    size_t room;
};

/*
 * Returns the process of an event. An event of kind "process" begins a new process.
 */
uint32_t gf_job_process_of(struct gf_job *job, struct gf_job_log *log,
                           const struct gf_event *event);

/* Adds an event of a log to the job. Impossible times and durations of stalls are stored as 0. */
void gf_job_add_event(struct gf_job *job, struct gf_job_log *log, const struct gf_event *event);

void gf_job_log_free(struct gf_job_log *log);
