/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the line of a process in `gpufeed top`. */
#ifndef GF_CLI_TOP_TOP_ROW_H
#define GF_CLI_TOP_TOP_ROW_H

#include "cli/top/snapshot.h"

#include <stdio.h>

/* Sums since a process's first use of CUDA. */
struct gf_top_sums {
    double seconds, steps, to_device, from_device, stalls_us;
    double gpu_s, gpu_empty_s; /* sampled time of the GPUs, and the part without work */
};

/*
 * The sums of a process's last two different reports. A report that does not exist yet counts as
 * zeros.
 */
struct gf_top_history {
    pid_t pid;
    struct gf_top_sums before, now;
};

/*
 * Adds the snapshot's report to the history, unless the snapshot has no report or the report that
 * was added last.
 */
void gf_top_history_add(struct gf_top_history *history, const struct gf_snapshot *snapshot);

/*
 * Prints the line of a process, with rates between the two reports of the history. `snapshot`
 * contains the later report. width: see cli/top/columns.h.
 */
void gf_top_row_print(FILE *out, const struct gf_snapshot *snapshot,
                      const struct gf_top_history *history, unsigned width);

#endif
