/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The durations of steps that each process's report has (docs/report.md#steps), also of a program
 * that marks no steps.
 */
#ifndef GF_CLI_REPORT_SUMS_REPORTED_STEPS_H
#define GF_CLI_REPORT_SUMS_REPORTED_STEPS_H

#include "cli/report/input/job.h"

struct gf_reported_steps {
    uint32_t process;
    char source
        [16]; /* "marks", "copies", "graphs", "waits", or a name that this version does not know */
    double copy_bytes;  /* size of the copy that begins each step; 0 for other sources */
    double steps, slow; /* the number of steps, and of those above 1.5 times the median */
    double p50_s, p99_s, max_s;
    double data_wait_s; /* mean wait for data in a step; -1 if unknown */
    /* What was different in the longest step; "" if unknown. detail: the cause, and its time. */
    char difference[16], detail[32];
    double detail_s;
};

struct gf_reported_list {
    struct gf_reported_steps *list; /* the largest median first */
    size_t count;
};

/* Finds the reports with steps. The list is empty if memory is short. */
struct gf_reported_list gf_reported_steps_find(const struct gf_job *job);
void gf_reported_steps_free(struct gf_reported_list *steps);

#endif
