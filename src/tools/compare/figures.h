/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of reports (docs/report.md) that show where time was spent. */
#pragma once

#include "base/base.h"
#include "tools/job/sums.h"

#define GF_FIGURES_CAUSES 32

/* What a cause took: time of threads in stalls, or time of GPUs without work. */
enum gf_figures_of { GF_OF_STALLS, GF_OF_IDLE, GF_FIGURES_KINDS };

struct gf_figures_row {
    char cause[32]; /* "": the sum of all causes */
    double count, seconds;
    double line_s; /* the time of the process that has the line */
    char line[96]; /* "train.py:4 in load"; "" if unknown */
};

/* Sums over several reports, which are from the processes of one run, or from several runs. */
struct gf_figures {
    double reports;
    double ran_s; /* time from the first use of CUDA to the report */
    double steps, steps_s;
    double gpu_s,
        gpu_empty_s; /* the time of the GPUs, and the part in which they had nothing to do */
    struct gf_copy_sum copies[GF_DIRECTIONS][GF_WAYS];
    struct gf_figures_row stalls, causes[GF_FIGURES_KINDS][GF_FIGURES_CAUSES];
};

#define GF_FIGURES_LEAST_S 1e-6 /* a report may claim a shorter time, but its ratio is no number */

/* Whether the program marked steps, and they took time. */
static inline bool gf_figures_have_steps(const struct gf_figures *figures)
{
    return figures->steps >= 1 && figures->steps_s >= GF_FIGURES_LEAST_S;
}

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
struct gf_figures_row *gf_figures_cause(struct gf_figures_row rows[GF_FIGURES_CAUSES],
                                        const char *cause);

/* Returns the change of a cause's seconds from one run to the other, if rows are sums over runs. */
double gf_figures_growth(const struct gf_figures_row *before, const struct gf_figures_row *after,
                         const double runs[2]);

/* Takes the cause whose time changed most out of both lists. Returns false if the lists are empty. */
bool gf_figures_take_most(struct gf_figures figures[2], enum gf_figures_of kind,
                          const double runs[2], struct gf_figures_row ret[2]);

/* Adds the report in a file to a run. Returns 0, or -errno after printing an error. */
int gf_run_add(struct gf_figures *run, const char *path);

#define GF_FOLDER_RUNS_MAX 1000u /* further files and folders are an error */

struct gf_folder {
    struct gf_figures *runs; /* of the processes of each run */
    size_t count;
    struct gf_figures sum; /* over all runs */
};

/*
 * Reads a folder, whose entries are runs: a file is the report of a run's only process, and a folder
 * has the reports of all processes of a run. Entries whose names do not end with ".json" or begin
 * with a dot are left out, and so are folders without a report, and further names of a report or
 * folder. Returns 0, or -errno after printing an error. The caller frees the runs in all cases.
 */
int gf_folder_read(const char *path, struct gf_folder *ret);

/*
 * Returns the time of each run: if `by_step`, of a step, otherwise from the first use of CUDA to the
 * report, the mean of the run's processes. In seconds, one for each run. The caller frees the result.
 */
double *gf_folder_times(const struct gf_folder *folder, bool by_step);

/* Whether each run has marked steps. */
bool gf_folder_has_steps(const struct gf_folder *folder);
