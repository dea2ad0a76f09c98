/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of two arms, their figures and their ratio. */
#pragma once

#include "tools/job/job_tables.h"

#include <limits.h>

/* figures.c: figures of reports (docs/report.md) that show where time was spent. */

#define GF_FIGURES_CAUSES 32

/* What a cause took: time of threads in stalls, or time of GPUs without work. */
enum gf_figures_of { GF_OF_STALLS, GF_OF_IDLE, GF_FIGURES_KINDS };

struct gf_figures_row {
    char cause[32]; /* "": the sum of all causes */
    double count, seconds;
    double line_s; /* the time of the process that has the line */
    char line[96]; /* "train.py:4 in load"; "" if unknown */
};

/*
 * Sums over several reports, which are from the processes of one run, or from several runs. Each member before
 * `stalls` consists of numbers of the type double.
 */
struct gf_figures {
    double reports;
    double ran_s; /* time from the first use of CUDA to the report */
    double steps, steps_s;
    /* Steps with a known duration, marked or detected; sums over the processes, each times its steps. */
    double timed, timed_p99_s;
    double awaited, awaited_s; /* those of them whose wait for data is known, and this wait */
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

/* Returns the change of a cause's seconds from one run to the other, if rows are sums over runs. */
double gf_figures_growth(const struct gf_figures_row *before, const struct gf_figures_row *after,
                         const double runs[2]);

/* Takes the cause whose time changed most out of both lists. Returns false if the lists are empty. */
bool gf_figures_take_most(struct gf_figures figures[2], enum gf_figures_of kind,
                          const double runs[2], struct gf_figures_row ret[2]);

/* Adds the report in a file to a run. Returns 0, or -errno after printing an error. */
int gf_run_add(struct gf_figures *run, const char *path);

#define GF_FOLDER_RUNS_MAX 1000u /* further files and folders are an error */

/*
 * Adds the runs of a folder, whose entries are runs: a file is the report of a run's only process, and
 * a folder has the reports of all processes of a run. Entries whose names do not end with ".json" or
 * begin with a dot are left out, and so are folders without a report, and further names of a report or
 * folder. Returns 0, or -errno after printing an error.
 */
struct gf_side;
int gf_folder_read(const char *path, struct gf_side *side);

/*
 * trial.c: paired runs of the command in two arms, with the GPUs' clocks; the ratio of the arms' times, with a
 * 95 % interval.
 */

/* The two arms of a comparison: the environment variables of their runs. */
#define GF_ARM_VARIABLES 32

struct gf_arm {
    char name[32];
    const char *variables[GF_ARM_VARIABLES + 1]; /* "VAR=VALUE"; ends with NULL */
};

struct gf_arms {
    struct gf_arm list[2];
    size_t count;
};

/*
 * Parses "NAME:VAR=VALUE", and adds the variable to the arm NAME, which is created if necessary.
 * "NAME:" adds an arm without a variable. The arms point into `text`, which must stay valid.
 * Returns 0, or -EINVAL after printing an error.
 */
int gf_arms_add(struct gf_arms *arms, const char *text);

/*
 * If no arm was added, adds the default arms, observe and on. Returns 0, or -EINVAL after printing
 * an error if there is only one arm.
 */
int gf_arms_finish(struct gf_arms *arms);

/*
 * Clocks and temperatures of the machine's GPUs while a command runs. A thread reads them by NVML
 * twice per second, and skips idle GPUs. Sums over readings: without NVML or a busy GPU, `readings`
 * is 0.
 */
struct gf_gpu_clock {
    double readings;
    double mhz;     /* sum of the multiprocessors' clocks */
    double celsius; /* highest temperature */
    double limited; /* number of readings at which heat or the power limit lowered the clock */
};

/*
 * Lets SIGINT end a comparison, whose finished pairs are then printed. It interrupts system calls,
 * unless the caller of the command ignores it.
 */
void gf_interrupt_begin(void);

/* Restores SIGINT's action. If SIGINT was received, it now ends this process. */
void gf_interrupt_end(void);

struct gf_run {
    /* Time from the fork to the command's end; of reports: from the first use of CUDA, the mean. */
    double wall_s;
    struct gf_figures figures;
    struct gf_gpu_clock clock;
};

/* What is compared: an arm, a folder or a report. The owner frees the runs. */
struct gf_side {
    char name[NAME_MAX + 1];
    struct gf_run *runs;
    size_t count;
    struct gf_run sum; /* over the runs */
};

void gf_side_add(struct gf_side *side, const struct gf_run *run);

#define GF_BOOTSTRAP_PAIRS_MIN 6u /* fewer pairs give too few different resamples */
#define GF_BOOTSTRAP_PAIRS_MAX 1000u

double gf_mean(const double *values, size_t count);

struct gf_ratio {
    double ratio;     /* mean of `after` divided by mean of `before` */
    double low, high; /* the 95 % interval */
};

/*
 * Computes the ratio and its bootstrap interval from values[0][i], before, and values[1][i], after.
 * If they are paired, the counts are equal; otherwise the values of each side are resampled by
 * themselves. Equal arguments give equal results. For few values, the interval between the plain
 * percentiles would be too narrow, so it is expanded (Hesterberg, What Teachers Should Know about the
 * Bootstrap, 2015, section 5). All values must be above 0, and the counts must be within the limits
 * above.
 */
struct gf_ratio gf_bootstrap_ratio(const double *const values[2], const size_t counts[2],
                                   bool paired);

/*
 * Returns the next number of a pseudo-random sequence that depends only on the state. The numbers
 * must not be used for secrets.
 */
uint64_t gf_bootstrap_random(uint64_t *state);

/*
 * Makes `pairs` pairs of runs, in random order within each pair, after one pair that is discarded.
 * Adds the runs of each finished pair to the sides. Stops at the first run that fails, after printing
 * an error, and returns -errno. Stops at SIGINT, and returns -EINTR.
 */
int gf_trial_run(const struct gf_arms *arms, size_t pairs, char *const *command,
                 struct gf_side sides[2]);
