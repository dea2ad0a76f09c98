/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of reports (docs/report.md) that tell where time went. */
#ifndef GF_CLI_COMPARE_FIGURES_H
#define GF_CLI_COMPARE_FIGURES_H

#include "base/base.h"

#define GF_FIGURES_CAUSES 24

struct gf_figures_copies {
    /* Bytes of staged copies, of pinned copies, and of copies left to the driver. */
    double bytes, seconds;
    double staged_bytes, pinned_bytes;
};

struct gf_figures_stalls {
    char cause[16]; /* "": the sum of all causes */
    double count, seconds;
};

/* Sums over several reports: those of a run's processes, or those of several runs. */
struct gf_figures {
    double reports;
    double ran_s; /* time from the first use of CUDA to the report */
    double steps, steps_s;
    double gpu_s,
        gpu_empty_s; /* the time of the GPUs, and the part in which they had nothing to do */
    struct gf_figures_copies to_device, from_device;
    struct gf_figures_stalls stalls, causes[GF_FIGURES_CAUSES];
};

/* Adds the report in a file. 0 or -errno; -EINVAL if the file is not a report. */
int gf_figures_add_file(struct gf_figures *figures, const char *path);

/* Adds `more`. */
void gf_figures_add(struct gf_figures *figures, const struct gf_figures *more);

/* Returns the row of a cause, and adds it if it is missing. Returns the last row of a full table. */
struct gf_figures_stalls *gf_figures_cause(struct gf_figures *figures, const char *cause);

#endif
