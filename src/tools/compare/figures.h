/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of reports (docs/report.md) that show where time was spent. */
#pragma once

#include "tools/job/sums.h"

#define GF_FIGURES_CAUSES 24

struct gf_figures_stalls {
    char cause[16]; /* "": the sum of all causes */
    double count, seconds;
};

/* Sums over several reports, which are from the processes of one run, or from several runs. */
struct gf_figures {
    double reports;
    double ran_s; /* time from the first use of CUDA to the report */
    double steps, steps_s;
    double gpu_s,
        gpu_empty_s; /* the time of the GPUs, and the part in which they had nothing to do */
    struct gf_copy_sum copies[GF_DIRECTIONS][GF_WAYS];
    struct gf_figures_stalls stalls, causes[GF_FIGURES_CAUSES];
};

/*
 * Adds the report in a file to the figures. Returns 0 or -errno; -EINVAL if the file is not a
 * report.
 */
int gf_figures_add_file(struct gf_figures *figures, const char *path);

/* Adds `more`. */
void gf_figures_add(struct gf_figures *figures, const struct gf_figures *more);

/*
 * Returns the row of a cause, and adds the row if it is missing. If the table is full, returns its
 * last row.
 */
struct gf_figures_stalls *gf_figures_cause(struct gf_figures *figures, const char *cause);
