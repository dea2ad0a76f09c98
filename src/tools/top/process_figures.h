/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a process that `gpufeed top` shows: rates between its last two reports. */
#pragma once

#include "tools/top/snapshot.h"

/* Sums since a process's first use of CUDA. */
struct gf_top_sums {
    double seconds, steps, detected_steps, to_device, from_device, stalls_us;
    double gpu_s, gpu_empty_s; /* sampled time of the GPUs, and the part without work */
};

/*
 * The sums of a process's last two different reports. A report that does not exist yet counts as
 * zeros.
 */
struct gf_top_history {
    pid_t pid;
    struct gf_top_sums before, now;
    unsigned workers, asleep; /* forked children without figures, and how many of them wait */
};

struct gf_process_figures {
    int64_t rank;                         /* -1 if unknown */
    double ran_s;                         /* time since the first use of CUDA */
    double steps, to_device, from_device; /* per second; copies in bytes */
    double detected_steps; /* steps that no program marked, per second; below 0 if none are known */
    bool marks_steps;
    double stalled;                       /* stalled time of all threads per time */
    double idle;                          /* share of the GPU's time; below 0 if unknown */
    char idle_cause[32], stall_cause[32]; /* with the most time since the start; "" if unknown */
    bool is_bound;
    char gpu[64]; /* the name of the first GPU; "" if unknown */
};

/*
 * Adds the snapshot's report to the history, unless the snapshot has no report or the report that
 * was added last.
 */
void gf_process_figures_add(struct gf_top_history *history, const struct gf_snapshot *snapshot);

/* Computes the figures. `snapshot` has a report, which is the later one of the history. */
void gf_process_figures_read(const struct gf_snapshot *snapshot,
                             const struct gf_top_history *history, struct gf_process_figures *ret);
