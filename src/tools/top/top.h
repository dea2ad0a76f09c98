/* SPDX-License-Identifier: Apache-2.0 */
/* What the command top reads and shows. */
#pragma once

#include "base/base.h"

#include <jansson.h>
#include <stdio.h>

/* snapshot.c: reads the latest report of a running process. */

enum gf_snapshot_source {
    gf_snapshot_live,  /* the process's file in memory */
    gf_snapshot_file,  /* its report file (GPUFEED_REPORT), which is older */
    gf_snapshot_newer, /* no report: a later version of the library writes it in another form */
    gf_snapshot_none,  /* no report: neither the file in memory nor the report file can be read */
};

struct gf_snapshot {
    pid_t pid;
    enum gf_snapshot_source source;
    json_t *report;    /* may be NULL; the caller drops the reference */
    bool is_wanted;    /* without a report: the process was told to make figures */
    bool is_of_job;    /* only of gf_snapshot_read_apart with a job */
    bool is_silent;    /* only of gf_snapshot_read_apart: the process was not read in time */
    char command[256]; /* the words of the command line, separated by blanks */
};

/* Reads the process's file in memory or, if that fails, its report file. */
void gf_snapshot_read(pid_t pid, struct gf_snapshot *ret);

/*
 * The same in a child process, with a time limit: the report, and the pages of the environment and of
 * the command line, may be on a file system that does not answer. Then there is no report. If `job` is
 * not NULL, reads only whether the process is of this job.
 */
void gf_snapshot_read_apart(pid_t pid, const char *job, struct gf_snapshot *ret);

#define GF_FOUND_MOST 256

struct gf_found {
    pid_t pids[GF_FOUND_MOST + 1];
    uid_t users[GF_FOUND_MOST + 1];
    size_t count;
    size_t dropped; /* processes that are not in the list, because it is full */
    pid_t silent
        [GF_FOUND_MOST]; /* were not read in time, so that it is not known whether they use the library */
    size_t silent_count; /* may exceed GF_FOUND_MOST */
    size_t unreadable;   /* of other users; their mappings are refused */
};

/* Begins a new time limit for processes of other users; called before each list of processes. */
void gf_snapshot_begin(void);

/*
 * Lists the processes that have mapped the engine and that this user may read. If `job` is not
 * NULL, lists only the processes of this job. A full list keeps this user's processes, and drops those
 * of the user with the most. Calls gf_snapshot_begin. Returns 0, or -errno after printing that no child
 * process could be started.
 */
int gf_snapshot_find(const char *job, struct gf_found *ret);

/*
 * Whether the process is a forked child, such as a loader's worker, whose figures are those of its
 * parent: the library has no thread in it. *ret_parent: its parent. *ret_runs: whether it runs now.
 */
bool gf_snapshot_is_worker(pid_t pid, pid_t *ret_parent, bool *ret_runs);

/*
 * Returns 0 if the process has mapped the engine, -ENOENT if it has not, -ETIMEDOUT if its mappings cannot
 * be read in time, or another -errno if the process cannot be read.
 */
int gf_snapshot_check(pid_t pid);

/*
 * process_figures.c: the figures of a process that `gpufeed top` shows: rates between its last two
 * reports.
 */

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

/* cmd_top.c. */

/* Returns "processes 12, 13 and 4 more were not read in time"; "" if all were. */
const char *gf_found_name_silent(const struct gf_found *found);

/* screen.c: terminal and columns. */

/*
 * If standard input and output are a terminal, reads single keys and hides the cursor until
 * gf_screen_close or a signal that ends the command. Returns whether they are a terminal.
 */
bool gf_screen_open(void);
void gf_screen_close(void);

/* Returns the number of columns of the terminal; 0 if standard output is not a terminal. */
unsigned gf_screen_width(void);

/*
 * Waits for wait_ms, or until the user presses a key or the terminal changes its size. Returns
 * false if the key is q, or at the end of input.
 */
bool gf_screen_wait(unsigned wait_ms);

/* The columns of `gpufeed top`. A narrow terminal shows only the most important of them. */

enum gf_column {
    gf_column_pid,
    gf_column_rank,
    gf_column_ran,
    gf_column_steps,
    gf_column_idle,
    gf_column_why_idle,
    gf_column_to_gpu,
    gf_column_from_gpu,
    gf_column_stalled,
    gf_column_most_time,
    gf_column_bound,
    gf_column_count,
};

/* width: that of the terminal; 0: unlimited, so that all columns are shown. */
void gf_columns_print_header(unsigned width);

/* Prints a row, with a text for each column and the program after the columns that are shown. */
void gf_columns_print(const char *const cells[gf_column_count], const char *program,
                      unsigned width);

/* Whether there is space for the program's GPU and its whole path. */
bool gf_columns_fit_gpu(unsigned width);

/* Prints a line, cut to `width` bytes, and so at most to `width` columns, unless that is 0. */
void gf_columns_print_line(char *line, unsigned width);
