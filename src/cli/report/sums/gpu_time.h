/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of the reports' sections gpu_time (docs/report.md#gpu_time): the GPUs' time by state, and
 * their time without work by cause. States and causes that this version does not know are kept.
 */
#ifndef GF_CLI_REPORT_SUMS_GPU_TIME_H
#define GF_CLI_REPORT_SUMS_GPU_TIME_H

#include "base/base.h"

#include <jansson.h>

#define GF_GPU_PARTS 32

struct gf_gpu_part {
    char name[32];
    double s;
    /*
     * For a cause: the rank of the GPU with the most time of this cause (-1 if unknown), that time,
     * and the line of the program that caused most of it.
     */
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
    /*
     * Time in which submitting threads had no CPU, and in that time: CPU time of their processes,
     * and CPU time of all CPUs that the processes may use.
     */
    double without_cpu_s, own_cpu_s, all_cpu_s;
};

/* Adds the section of a process's report. `rank` is the rank of the process, or -1. */
void gf_gpu_time_add(struct gf_gpu_time *time, const json_t *section, int64_t rank);

/* Sorts the causes, the longest first. */
void gf_gpu_time_finish(struct gf_gpu_time *time);

/* Returns the share of the GPUs' time in this state; 0 if no report has the state. */
double gf_gpu_time_state(const struct gf_gpu_time *time, const char *state);

/*
 * Returns the share of the GPUs' time in which this cause left them without work; 0 if no report
 * has the cause.
 */
double gf_gpu_time_cause(const struct gf_gpu_time *time, const char *cause);

#endif
