/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/job/job.h"

/* The steps between the program's marks (gpufeed_set_step), and which of them were slow. */

/* A step that took more than this many times the median is slow. */
#define GF_SLOW_STEP 2

struct gf_step {
    uint64_t step;
    double at, s; /* when the step began; its duration, which is 0 unless has_end */
    uint32_t process, thread;
    bool has_end;      /* the duration is known */
    bool is_open;      /* the step was in progress when the log ended */
    uint64_t stall_us; /* sum of the process's stalls in this step; only for the longest steps */
};

struct gf_steps {
    struct gf_step *list; /* steps with a known end, the longest first, then other steps */
    size_t count, ended, slow;
    double median_s;
};

/* Finds the steps of a job. The caller frees the list. */
struct gf_steps gf_steps_find(const struct gf_job *job);

/*
 * Finds the split that explains most of the variance of the values (least squares), with at least
 * `edge` values on each side, whose mean after the split exceeds the mean before it `factor` times.
 * Returns the index of the first value after it, and sets both means; returns 0 without such a split.
 */
size_t gf_split_find(const double *values, size_t count, size_t edge, double factor,
                     double *ret_early, double *ret_late);

struct gf_step_onset {
    uint64_t step; /* the first slower step; 0 if steps did not become slower */
    double at;
    double before_s, after_s; /* median durations of the steps before `step`, and from `step` on */
};

/*
 * Finds the step from which on a rank's steps took longer than before. Rank -1: finds the step for
 * the job, if at least half of all processes became slower.
 */
struct gf_step_onset gf_step_onset_find(const struct gf_job *job, const struct gf_steps *steps,
                                        int64_t rank);

/*
 * The durations of steps that each process's report has (docs/report.md#steps), also of a program
 * that marks no steps.
 */

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

/* Finds the reports with steps. The caller frees the list. */
struct gf_reported_list gf_reported_steps_find(const struct gf_job *job);
