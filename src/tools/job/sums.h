/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"
#include "tools/job/job.h"

#include <jansson.h>

/* Sums of the copies of all processes, from their reports. */
enum gf_way { GF_WAY_STAGED, GF_WAY_PINNED, GF_WAY_DRIVER, GF_WAY_OTHER, GF_WAYS };
enum gf_direction { GF_TO_DEVICE, GF_FROM_DEVICE, GF_DIRECTIONS };

/* The names of ways and directions in a report. */
extern const char *const gf_way_names[GF_WAYS];
extern const char *const gf_direction_names[GF_DIRECTIONS];

struct gf_copy_sum {
    double calls, bytes, duration_s;
};

void gf_copy_sum_add(struct gf_copy_sum *sum, const struct gf_copy_sum *more);

#define GF_COPY_REASONS 32

struct gf_copy_reason {
    char name[32];
    struct gf_copy_sum sum;
};

struct gf_copies {
    unsigned reports; /* number of reports that count copies, even if all counts are 0 */
    struct gf_copy_sum ways[GF_DIRECTIONS][GF_WAYS];
    struct gf_copy_reason reasons[GF_DIRECTIONS]
                                 [GF_COPY_REASONS]; /* sorted, the most bytes first */
    unsigned reason_count[GF_DIRECTIONS];
    struct gf_copy_sum small;
    double stream_waits, pinning_saves_s;
    /* Why no copy is staged, from the first report with a reason; "" without one. */
    char staging_off[256];
};

/* Adds to the sums the copies that a report counts. */
void gf_copies_add(struct gf_copies *copies, const json_t *report);

/* Sorts the reasons, after all reports were added. */
void gf_copies_finish(struct gf_copies *copies);

/* Returns the rate in 10^9 bytes per second; 0 if no copy was timed. */
double gf_copy_rate(const struct gf_copy_sum *sum);

/*
 * Sums of the reports' sections gpu_time (docs/report.md#gpu_time): the GPUs' time by state, and
 * their time without work by cause. States and causes that this version does not know are kept.
 */

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
    /*
     * For a cause: the time of the GPUs whose report has a remedy for it, the most of one of them,
     * and its remedy. Older reports have none: "" then stands for the usual one.
     */
    double helped_s, remedy_s;
    char remedy[160];
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

/* Adds the section of a process's report. `rank` is the rank of the process, or -1. */
void gf_gpu_time_add(struct gf_gpu_time *time, const json_t *section, int64_t rank);

/* Adds the seconds of all GPUs of a report, and those without work, however few the samples are. */
void gf_gpu_seconds_add(const json_t *report, double *gpu_s, double *empty_s);

/* Sorts the causes, the longest first. */
void gf_gpu_time_finish(struct gf_gpu_time *time);

/* Returns the share of the GPUs' time in this state; 0 if no report has the state. */
double gf_gpu_time_state(const struct gf_gpu_time *time, const char *state);

/*
 * Returns the share of the GPUs' time in which this cause left them without work; 0 if no report
 * has the cause.
 */
double gf_gpu_time_cause(const struct gf_gpu_time *time, const char *cause);

/*
 * The GPUs' time by the logs' activity. Reports also have causes, but only of the whole job: with
 * --since, only logs have the time from then on.
 */

struct gf_logged_gpu {
    double s, empty_s, copying_s; /* time of all GPUs; without work, and with only copies */
    uint32_t process;             /* one that logged it */
    bool is_several;              /* others did, too */
};

/* Adds an interval's part after job->since. */
void gf_logged_gpu_add(struct gf_logged_gpu *sum, const struct gf_job *job,
                       const struct gf_activity *activity);
