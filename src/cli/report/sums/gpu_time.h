/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of the reports' sections gpu_time (docs/report.md#gpu_time): the GPUs' time by state, and by
 * cause while they had nothing to do. States and causes that this version does not know are kept.
 */
#ifndef GF_CLI_REPORT_SUMS_GPU_TIME_H
#define GF_CLI_REPORT_SUMS_GPU_TIME_H

#include "base/base.h"

#include <jansson.h>

#define GF_GPU_PARTS 32

struct gf_gpu_part {
    char name[32];
    double s;
    /* For a cause: the rank with most of its time (-1 if unknown), and that rank's main line. */
    int64_t rank;
    double rank_s;
    char line[96]; /* "train.py:4 in load"; "" if unknown */
};

struct gf_gpu_parts {
    struct gf_gpu_part list[GF_GPU_PARTS];
    unsigned count;
};

struct gf_gpu_time {
    unsigned devices; /* GPUs of all processes; a shared GPU counts once per process */
    double s;         /* sum of their times in seconds */
    struct gf_gpu_parts states, causes;
};

/* Adds the section of a process of this rank; -1 if it has none. */
void gf_gpu_time_add(struct gf_gpu_time *time, const json_t *section, int64_t rank);

/* Sorts the causes, the longest first. */
void gf_gpu_time_finish(struct gf_gpu_time *time);

/* The share of a state; 0 if no report has it. */
double gf_gpu_time_state(const struct gf_gpu_time *time, const char *state);

/* The share of a cause; 0 if no report has it. */
double gf_gpu_time_cause(const struct gf_gpu_time *time, const char *cause);

#endif
