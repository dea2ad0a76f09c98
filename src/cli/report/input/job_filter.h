/* SPDX-License-Identifier: Apache-2.0 */
/* Restricts a job to some ranks and to the time from a moment on. */
#ifndef GF_CLI_REPORT_INPUT_JOB_FILTER_H
#define GF_CLI_REPORT_INPUT_JOB_FILTER_H

#include "cli/report/input/job.h"

#define GF_RANK_RANGES 64

struct gf_job_filter {
    double since;  /* seconds since 1970; 0: no limit */
    double last_s; /* the last seconds of the job; 0: no limit */
    struct {
        int64_t first, last;
    } ranks[GF_RANK_RANGES];
    unsigned rank_count; /* 0: all ranks */
};

/* Reads "0,3-5". False if the text is no such list. */
bool gf_job_filter_ranks(struct gf_job_filter *filter, const char *text);

/*
 * Reads a moment in local time ("2026-11-23 08:51", "08:51:09" of today) or the length of the job's
 * last part ("90s", "10m", "2h", "1d"). False if the text is neither.
 */
bool gf_job_filter_since(struct gf_job_filter *filter, const char *text);

bool gf_job_filter_takes_rank(const struct gf_job_filter *filter, int64_t rank);

/* The time from which on the filter takes stalls of the job; 0 without a limit. */
double gf_job_filter_moment(const struct gf_job *job, const struct gf_job_filter *filter);

/* Removes the stalls and notes that the filter excludes, and marks the processes of other ranks. */
void gf_job_filter_apply(struct gf_job *job, const struct gf_job_filter *filter);

#endif
