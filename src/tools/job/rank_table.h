/* SPDX-License-Identifier: Apache-2.0 */
/* One row for each rank. */
#pragma once

#include "tools/job/steps.h"
#include "tools/job/sums.h"

struct gf_rank_row {
    int64_t rank;
    uint32_t host;
    size_t processes;
    uint32_t process; /* the first one's index + 1 */
    double first, last;
    double stall_s, delay_s;
    /* When the first step began and the last one ended; 0 without steps in a log. */
    double first_step, last_step;
    /* Stalled time between first_step and last_step; without steps, the time of all stalls. */
    double step_stall_s;
    uint64_t stalls;
    struct gf_copy_sum to_device; /* copies to the GPU that were timed */
    /* The pinned and the staged copies among them, whose rate the PCIe link limits. */
    struct gf_copy_sum of_pinned;
    size_t steps;       /* number of steps with a known end */
    double step_s;      /* median duration of these steps; 0 without steps */
    double step_mean_s; /* mean duration of these steps, without the longest tenth of them */
    /* Time of the rank's GPUs; the part of it without work; the part with only copies. */
    double gpu_s, gpu_empty_s, gpu_copying_s;
    bool gpu_is_recent; /* these times are not of the time before --since */
    /* Seconds by which the rank took longer than the median of all ranks; 0 if it does not differ. */
    double excess_s;
};

struct gf_rank_table {
    struct gf_rank_row *rows; /* sorted by rank */
    size_t count;
    uint32_t *next; /* by process: 1 + the index of the next one of the same rank */
};

/*
 * Makes a table with a row for each rank that a process has. reported: durations of ranks without
 * marks. The caller frees `rows` and `next`.
 */
struct gf_rank_table gf_rank_table_make(const struct gf_job *job, const struct gf_steps *steps,
                                        const struct gf_reported_list *reported);
