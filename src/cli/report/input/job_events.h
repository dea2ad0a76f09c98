/* SPDX-License-Identifier: Apache-2.0 */
/* Adds lines of a log to a job. */
#ifndef GF_CLI_REPORT_INPUT_JOB_EVENTS_H
#define GF_CLI_REPORT_INPUT_JOB_EVENTS_H

#include "cli/report/input/event.h"
#include "cli/report/input/job.h"

/*
 * The processes of one log, by id. One for each log, because ids repeat on other hosts. Initialised
 * with zeros.
 */
struct gf_job_log {
    struct gf_text_pool keys;
    uint32_t *processes; /* by number of the key; UINT32_MAX: none yet */
    size_t room;
};

/* The process in which the event occurred; a line "process" begins a new one. UINT32_MAX if memory
 * is short. */
uint32_t gf_job_process_of(struct gf_job *job, struct gf_job_log *log,
                           const struct gf_event *event);

/* Adds an event. Stalls with an impossible time or duration count as 0. */
void gf_job_add_event(struct gf_job *job, struct gf_job_log *log, const struct gf_event *event);

void gf_job_log_free(struct gf_job_log *log);

/* Seconds since 1970 at which an event occurred; 0 if its time is missing or impossible. */
double gf_event_time(const struct gf_event *event);

#endif
