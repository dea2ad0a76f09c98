/* SPDX-License-Identifier: Apache-2.0 */
/* Restricts a job to some ranks, and to events after a given time. */
#ifndef GF_CLI_REPORT_INPUT_JOB_FILTER_H
#define GF_CLI_REPORT_INPUT_JOB_FILTER_H

#include "cli/report/input/job.h"

#define GF_RANK_RANGES 64

struct gf_job_filter {
    double since;  /* seconds since 1970; 0: no limit */
    double of_day; /* a time without a date, in seconds after midnight; -1: none was given */
    double last_s; /* the last seconds of the job; 0: no limit */
    struct {
        int64_t first, last;
    } ranks[GF_RANK_RANGES];
    unsigned rank_count; /* 0: all ranks */
};

/* Parses a list such as "0,3-5". Returns false if the text is something else. */
bool gf_job_filter_ranks(struct gf_job_filter *filter, const char *text);

/*
 * Parses a local time, with or without a date ("2026-11-23 08:51", "08:51:09.5"), or a duration
 * before the job's end ("90s", "10m", "2h", "1d"). Returns false if the text is neither.
 */
bool gf_job_filter_since(struct gf_job_filter *filter, const char *text);

bool gf_job_filter_takes_rank(const struct gf_job_filter *filter, int64_t rank);

/*
 * Whether gf_job_filter_moment needs the job, because the filter has a duration or a time without a
 * date.
 */
bool gf_job_filter_needs_job(const struct gf_job_filter *filter);

/*
 * Returns the time from which on the filter keeps stalls; 0 without a limit. For a time without a
 * date, this is the last occurrence of the time before the job's end.
 */
double gf_job_filter_moment(const struct gf_job *job, const struct gf_job_filter *filter);

/* Removes stalls and notes that the filter excludes. Marks processes of other ranks as excluded. */
void gf_job_filter_apply(struct gf_job *job, const struct gf_job_filter *filter);

/*
 * Called after gf_job_filter_apply. Returns whether the filter removed everything from a job that
 * has processes. If so, writes a sentence with the reason to ret.
 */
bool gf_job_filter_is_empty(const struct gf_job *job, const struct gf_job_filter *filter, char *ret,
                            size_t size);

#endif
