/* SPDX-License-Identifier: Apache-2.0 */
/* One row for each rank, and the ranks that differ from the others. */
#ifndef GF_CLI_REPORT_OUTPUT_RANK_TABLE_H
#define GF_CLI_REPORT_OUTPUT_RANK_TABLE_H

#include "cli/report/output/copies.h"
#include "cli/report/output/lines.h"

struct gf_rank_row {
    int64_t rank;
    uint32_t host;
    size_t processes;
    double first, last;
    double stall_s, delay_s;
    uint64_t stalls;
    struct gf_copy_sum to_device; /* copies that were timed */
};

struct gf_rank_table {
    struct gf_rank_row *rows; /* sorted by rank */
    size_t count;
};

/* Makes a table of the processes that have a rank. */
struct gf_rank_table gf_rank_table_make(const struct gf_job *job);

/*
 * Adds a sentence for each difference of a rank from the median of all ranks: more stalled time, a
 * longer run-queue delay, slower copies, an earlier end. Needs at least two ranks.
 */
void gf_rank_table_compare(const struct gf_rank_table *table, const struct gf_job *job,
                           struct gf_lines *ret);

void gf_rank_table_free(struct gf_rank_table *table);

#endif
