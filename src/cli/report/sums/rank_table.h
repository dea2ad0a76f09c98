/* SPDX-License-Identifier: Apache-2.0 */
/* One row for each rank. */
#ifndef GF_CLI_REPORT_SUMS_RANK_TABLE_H
#define GF_CLI_REPORT_SUMS_RANK_TABLE_H

#include "cli/report/sums/copies.h"
#include "cli/report/sums/steps.h"

struct gf_rank_row {
    int64_t rank;
    uint32_t host;
    size_t processes;
    double first, last;
    double stall_s, delay_s;
    double first_step, last_step; /* when its steps began and ended; 0 without steps in a log */
    double step_stall_s;          /* stalls that began between them; all stalls without steps */
    uint64_t stalls;
    struct gf_copy_sum to_device; /* copies that were timed */
    struct gf_copy_sum
        of_pinned;      /* those from pinned memory, and staged ones: the link limits them */
    size_t steps;       /* steps with a known end */
    double step_s;      /* the median of their durations; 0 without steps */
    double step_mean_s; /* their mean, without the longest tenth */
    double gpu_s, gpu_empty_s,
        gpu_copying_s; /* time of its GPUs; the parts without work, and with only copies */
    double
        /* Seconds by which it took longer than the median of all ranks; 0 if it does not differ. */
        excess_s;
};

struct gf_rank_table {
    struct gf_rank_row *rows; /* sorted by rank */
    size_t count;
};

/* Makes a table of the processes that have a rank. */
struct gf_rank_table gf_rank_table_make(const struct gf_job *job, const struct gf_steps *steps);

void gf_rank_table_free(struct gf_rank_table *table);

#endif
