/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over a job: by way of copies, by property of stalls, by step and by rank. */
#pragma once

#include "tools/job/job.h"

/* sums.c: sums of the copies of all processes, from their reports. */
enum gf_way { GF_WAY_STAGED, GF_WAY_PINNED, GF_WAY_DRIVER, GF_WAY_OTHER, GF_WAYS };
enum gf_direction { GF_TO_DEVICE, GF_FROM_DEVICE, GF_DIRECTIONS };

/* The names of ways and directions in a report. */
extern const char *const gf_way_names[GF_WAYS];
extern const char *const gf_direction_names[GF_DIRECTIONS];

struct gf_copy_sum {
    double calls, bytes, duration_s;
};

void gf_copy_sum_add(struct gf_copy_sum *sum, const struct gf_copy_sum *more);

#define GF_COPY_REASONS 32

struct gf_copy_reason {
    char name[32];
    struct gf_copy_sum sum;
};

struct gf_copies {
    unsigned reports; /* number of reports that count copies, even if all counts are 0 */
    struct gf_copy_sum ways[GF_DIRECTIONS][GF_WAYS];
    struct gf_copy_reason reasons[GF_DIRECTIONS]
                                 [GF_COPY_REASONS]; /* sorted, the most bytes first */
    unsigned reason_count[GF_DIRECTIONS];
    struct gf_copy_sum small;
    double stream_waits, pinning_saves_s;
    /* Why no copy is staged, from the first report with a reason; "" without one. */
    char staging_off[256];
};

/* Adds to the sums the copies that a report counts. */
void gf_copies_add(struct gf_copies *copies, const json_t *report);

/* Sorts the reasons, after all reports were added. */
void gf_copies_finish(struct gf_copies *copies);

/* Returns the rate in 10^9 bytes per second; 0 if no copy was timed. */
double gf_copy_rate(const struct gf_copy_sum *sum);

/*
 * Sums of the reports' sections gpu_time (docs/report.md#gpu_time): the GPUs' time by state, and
 * their time without work by cause. States and causes that this version does not know are kept.
 */

#define GF_GPU_PARTS 32

struct gf_gpu_part {
    char name[32];
    double s;
    /*
     * For a cause: the rank of the GPU with the most time of this cause (-1 if unknown), that time,
     * and the line of the program that caused most of it.
     */
    int64_t rank;
    double rank_s;
    char line[96]; /* "train.py:4 in load"; "" if unknown */
    /*
     * For a cause: the time of the GPUs whose report has a remedy for it, the most of one of them,
     * and its remedy. Older reports have none: "" then stands for the usual one.
     */
    double helped_s, remedy_s;
    char remedy[160];
};

struct gf_gpu_parts {
    struct gf_gpu_part list[GF_GPU_PARTS];
    unsigned count;
};

struct gf_gpu_time {
    unsigned devices; /* GPUs of all processes; a shared GPU counts once per process */
    double s;         /* sum of their times in seconds */
    struct gf_gpu_parts states, causes;
};

/* Adds the section of a process's report, which may be NULL. `rank` is the rank of the process, or -1. */
void gf_gpu_time_add(struct gf_gpu_time *time, const json_t *report, int64_t rank);

/* Adds the seconds of all GPUs of a report, and those without work, however few the samples are. */
void gf_gpu_seconds_add(const json_t *report, double *gpu_s, double *empty_s);

/* Sorts the causes, the longest first. */
void gf_gpu_time_finish(struct gf_gpu_time *time);

/* Returns the share of the GPUs' time that one of its states or causes has; 0 if no report has it. */
double gf_gpu_share(const struct gf_gpu_time *time, const struct gf_gpu_parts *parts,
                    const char *name);

/*
 * The GPUs' time by the logs' activity. Reports also have causes, but only of the whole job: with
 * --since, only logs have the time from then on.
 */

struct gf_logged_gpu {
    double s, empty_s, copying_s; /* time of all GPUs; without work, and with only copies */
    uint32_t process;             /* one that logged it */
    bool is_several;              /* others did, too */
};

/* Adds an interval's part after job->since. */
void gf_logged_gpu_add(struct gf_logged_gpu *sum, const struct gf_job *job,
                       const struct gf_activity *activity);

/* tally.c: sums of stalls by a property, such as their cause. */

enum gf_by { GF_BY_CAUSE, GF_BY_SITE, GF_BY_RANK, GF_BY_STEP, GF_BY_THREAD, GF_BY_COUNT };

extern const char *const gf_by_names[GF_BY_COUNT];

struct gf_tally_row {
    int64_t key; /* value of the property: the index of a text or thread, a rank or a step */
    uint64_t count, us;
    uint32_t longest_us;
    double first, last; /* when the first and the last stall began */
    int64_t main;       /* the value of the second property with the longest sum */
    uint64_t main_us;
    uint32_t nth,
        at; /* this row has the nth key; the row whose key has this row's index is at `at` */
};

struct gf_tally {
    enum gf_by by, second;
    struct gf_tally_row *rows; /* the longest sum first */
    size_t count;
};

/*
 * Sums all stalls by the property `by`. The `main` of a row is the value of the property `second`
 * with the longest sum. The caller frees the rows.
 */
struct gf_tally gf_tally(const struct gf_job *job, enum gf_by by, enum gf_by second);

/* Returns the value of a property of a stall, as in gf_tally_row.key. */
int64_t gf_tally_key(const struct gf_job *job, const struct gf_stall *stall, enum gf_by by);

/*
 * Returns a key as text, by gf_text, such as "purge", "train.py:4 in load", "rank 3", "step 12" or "python3
 * 1234, rank 3".
 */
const char *gf_tally_label(const struct gf_job *job, enum gf_by by, int64_t key);

/* Returns the row with this key, or NULL. */
const struct gf_tally_row *gf_tally_find(const struct gf_tally *tally, int64_t key);

/* Adds stalls of which only the sum is known. The caller then calls gf_tally_join. */
void gf_tally_add(struct gf_tally *tally, int64_t key, uint64_t count, uint64_t us, double first,
                  double last);

/* Joins the rows with the same key, and sorts the rows. */
void gf_tally_join(struct gf_tally *tally);

struct gf_onset {
    double at;     /* time of the change; 0: nothing changed */
    double factor; /* factor by which stalls took more time after it, at most 1000 */
    /*
     * Step and rank of the first stall after the change at the call site with the most stalled
     * time; GF_NO_STEP and -1 if unknown.
     */
    int64_t step, rank;
};

/*
 * Finds the time from which on the stalls of a job took several times as much time as before.
 * Ignores stalls before `from` and after `to`. `site` is the call site with the most stalled time.
 */
struct gf_onset gf_onset_find(const struct gf_job *job, double from, double to, int64_t site);

/*
 * steps.c: the steps between the program's marks (gpufeed_set_step), and which of them were slow.
 */

/* A step that took more than this many times the median is slow. */
#define GF_SLOW_STEP 2

struct gf_step {
    uint64_t step;
    double at, s; /* when the step began; its duration, which is 0 unless has_end */
    uint32_t process, thread;
    bool has_end;      /* the duration is known */
    bool is_open;      /* the step was in progress when the log ended */
    uint64_t stall_us; /* sum of the process's stalls in this step; only for the longest steps */
};

struct gf_steps {
    struct gf_step *list; /* steps with a known end, the longest first, then other steps */
    size_t count, ended, slow;
    double median_s;
};

/* Finds the steps of a job. The caller frees the list. */
struct gf_steps gf_steps_find(const struct gf_job *job);

/*
 * Finds the split that explains most of the variance of the values (least squares), with at least
 * `edge` values on each side, whose mean after the split exceeds the mean before it `factor` times.
 * Returns the index of the first value after it, and sets both means; returns 0 without such a split.
 */
size_t gf_split_find(const double *values, size_t count, size_t edge, double factor,
                     double *ret_early, double *ret_late);

struct gf_step_onset {
    uint64_t step; /* the first slower step; 0 if steps did not become slower */
    double at;
    double before_s, after_s; /* median durations of the steps before `step`, and from `step` on */
};

/*
 * Finds the step from which on a rank's steps took longer than before. Rank -1: finds the step for
 * the job, if at least half of all processes became slower.
 */
struct gf_step_onset gf_step_onset_find(const struct gf_job *job, const struct gf_steps *steps,
                                        int64_t rank);

/*
 * The durations of steps that each process's report has (docs/report.md#steps), also of a program
 * that marks no steps.
 */

struct gf_reported_steps {
    uint32_t process;
    char source
        [16]; /* "marks", "copies", "graphs", "waits", or a name that this version does not know */
    double copy_bytes;  /* size of the copy that begins each step; 0 for other sources */
    double steps, slow; /* the number of steps, and of those above 1.5 times the median */
    double p50_s, p99_s, max_s;
    double data_wait_s; /* mean wait for data in a step; -1 if unknown */
    /* What was different in the longest step; "" if unknown. detail: the cause, and its time. */
    char difference[16], detail[32];
    double detail_s;
};

struct gf_reported_list {
    struct gf_reported_steps *list; /* the largest median first */
    size_t count;
};

/* Finds the reports with steps. The caller frees the list. */
struct gf_reported_list gf_reported_steps_find(const struct gf_job *job);

/* rank_table.c: one row for each rank. */

struct gf_rank_row {
    int64_t rank;
    uint32_t host;
    size_t processes;
    uint32_t process; /* the first one's index + 1 */
    double first, last;
    double stall_s, delay_s;
    /* When the first step began and the last one ended; 0 without steps in a log. */
    double first_step, last_step;
    /* Stalled time between first_step and last_step; without steps, the time of all stalls. */
    double step_stall_s;
    uint64_t stalls;
    struct gf_copy_sum to_device; /* copies to the GPU that were timed */
    /* The pinned and the staged copies among them, whose rate the PCIe link limits. */
    struct gf_copy_sum of_pinned;
    size_t steps;       /* number of steps with a known end */
    double step_s;      /* median duration of these steps; 0 without steps */
    double step_mean_s; /* mean duration of these steps, without the longest tenth of them */
    /* Time of the rank's GPUs; the part of it without work; the part with only copies. */
    double gpu_s, gpu_empty_s, gpu_copying_s;
    bool gpu_is_recent; /* these times are not of the time before --since */
    /* Seconds by which the rank took longer than the median of all ranks; 0 if it does not differ. */
    double excess_s;
};

struct gf_rank_table {
    struct gf_rank_row *rows; /* sorted by rank */
    size_t count;
    uint32_t *next; /* by process: 1 + the index of the next one of the same rank */
};

/*
 * Makes a table with a row for each rank that a process has. reported: durations of ranks without
 * marks. The caller frees `rows` and `next`.
 */
struct gf_rank_table gf_rank_table_make(const struct gf_job *job, const struct gf_steps *steps,
                                        const struct gf_reported_list *reported);
