/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"
#include "tools/compare/figures.h"

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
