/* SPDX-License-Identifier: Apache-2.0 */
/* One line of `gpufeed top` for each process. */
#ifndef GF_CLI_TOP_TOP_ROW_H
#define GF_CLI_TOP_TOP_ROW_H

#include "cli/top/snapshot.h"

#include <stdio.h>

/* What a process had done at a moment: sums since its first use of CUDA. */
struct gf_top_sums {
    double seconds, steps, to_device, from_device, stalls_us;
};

/* The last two reports of a process that differ. All zeros before the first. */
struct gf_top_history {
    pid_t pid;
    struct gf_top_sums before, now;
};

/* Adds a report, unless it is the one that was added last, or there is none. */
void gf_top_history_add(struct gf_top_history *history, const struct gf_snapshot *snapshot);

void gf_top_row_header(FILE *out, unsigned width);

/*
 * Writes the line: rates between the two reports of the history, of which `snapshot` is the last. At
 * most `width` columns, or any number for 0.
 */
void gf_top_row_print(FILE *out, const struct gf_snapshot *snapshot,
                      const struct gf_top_history *history, unsigned width);

#endif
