/* SPDX-License-Identifier: Apache-2.0 */
/* A job, and its restriction. */
#pragma once

#include "tools/job/text_pool.h"

#include <jansson.h>

/*
 * A job as logs and reports describe it: processes, threads, stalls, stacks. Times are seconds
 * since 1970. A text is an index into `texts`, and contains no control characters. A job owns its
 * lists; only one thread at a time may use a job.
 */

#define GF_NO_STEP INT64_MIN

/* One program of a process. After execve, the new program is another entry with the same pid. */
struct gf_job_process {
    int64_t pid, ppid, rank; /* rank is -1 if unknown */
    uint32_t host, program;  /* "" if unknown */
    /* Times of the first and last log line, or of the report if there is no log. */
    double first, last;
    uint64_t delay_ms, throttled_ms, fault_ms; /* sums over the process's threads */
    uint64_t dropped;                          /* log lines that the process dropped */
    uint64_t stalls; /* stalls in its log, also those that a filter removes */
    bool logged;
    bool uses_gpu;  /* its log has events that only a process with a GPU logs */
    bool exited;    /* its log has its exit or its last possible line, or another program began */
    bool excluded;  /* a filter excludes the process, and has removed its stalls and notes */
    json_t *report; /* NULL without a report */
};

struct gf_job_thread {
    uint32_t process, name;
    int64_t tid;
};

/* A distinct stack. The innermost frame is the last one. */
struct gf_job_stack {
    uint32_t site;   /* the call site: the program's own innermost line, else the innermost frame */
    uint32_t caller; /* the next outer line of the program itself; 0 if there is none */
    uint32_t frame;  /* index of the outermost frame in the job's list `frames` */
    uint32_t count;
};

struct gf_stall {
    double at;          /* when the call began */
    int64_t step, size; /* if unknown: GF_NO_STEP and -1 */
    uint32_t us;
    uint32_t process, thread, stack;
    uint32_t cause, call; /* texts */
};

/* A mark of the program: a step begins, and the step before it ends. */
struct gf_step_mark {
    double at;
    uint64_t step; /* 0: a step ends, and none begins */
    uint32_t process, thread;
    bool gap; /* the log lacks the next marks, so the end of this step is unknown */
};

/* The GPU's states that have a meaning of their own here, and the number of all. */
enum { GF_ACTIVITY_EMPTY, GF_ACTIVITY_COPYING, GF_ACTIVITY_STATES = 5 };

/* Names of the GPU's states, in the order of struct gf_activity. */
extern const char *const gf_activity_states[GF_ACTIVITY_STATES];

/* The activity of a process's GPUs and copies in an interval. */
struct gf_activity {
    double from, to;
    double state_s[GF_ACTIVITY_STATES]; /* time of all GPUs of the process, by state */
    double bytes[2];                    /* to the GPU, and from it */
    uint32_t process;
};

/* One of the longest copies of an interval. */
struct gf_long_copy {
    double at; /* when the call began */
    uint64_t bytes;
    uint32_t us;
    uint32_t process, thread;
    uint32_t way; /* text */
    bool to_device;
};

/* An event with a text, such as decided, rebound, widened, left_to_driver, ring or full. */
struct gf_note {
    double at;
    uint32_t process, kind, text;
};

struct gf_job {
    struct gf_text_pool texts;
    struct gf_text_pool stack_keys,
        thread_keys; /* a key's number is the index of its stack or thread + 1 */
    struct gf_job_process *processes;
    struct gf_job_thread *threads;
    struct gf_job_stack *stacks;
    struct gf_stall *stalls;
    struct gf_note *notes;
    struct gf_step_mark *marks; /* marks of one process are in the order of its log */
    struct gf_activity *activity;
    struct gf_long_copy *copies;
    json_t *doctors;  /* outputs of `gpufeed doctor --json`; NULL if there are none */
    uint32_t *frames; /* texts */
    size_t process_count, thread_count, stack_count, stall_count, note_count, mark_count,
        activity_count, copy_count, frame_count;
    double since;  /* stalls, steps and activity before this time were removed; 0: none */
    uint64_t lost; /* events that were not stored, because a list was full */
};

/* Makes room for one more element of a list. Returns the list, which may have moved. */
void *gf_job_grown(void *list, size_t element, size_t count);

/* Counts a new last element of a list, and returns its place. Only this macro makes the list longer. */
#define GF_JOB_ADD(list, count)                                                                    \
    ({                                                                                             \
        (list) = gf_job_grown(list, sizeof(*(list)), count);                                       \
        &(list)[(count)++];                                                                        \
    })

/* Adds a process without any data. Returns its index. */
uint32_t gf_job_add_process(struct gf_job *job);

/* Returns the index of a thread of a process, and adds the thread if it is missing. */
uint32_t gf_job_thread_of(struct gf_job *job, uint32_t process, int64_t tid);

const char *gf_job_text(const struct gf_job *job, uint32_t text);

/* Returns "rank 3", or "process 4711" without a rank, by gf_text. */
const char *gf_job_process_name(const struct gf_job_process *process);

/* Whether a process has a log. Only logs have call sites, stacks, steps and threads of stalls. */
bool gf_job_has_log(const struct gf_job *job);

void gf_job_free(struct gf_job *job);

/* Restricts a job to some ranks, and to events after a given time. */

#define GF_RANK_RANGES 64

struct gf_job_filter {
    double since;  /* seconds since 1970; 0: no limit */
    double of_day; /* a time without a date, in seconds after midnight; -1: none was given */
    double last_s; /* the last seconds of the job; 0: no limit */
    struct {
        int64_t first, last;
    } ranks[GF_RANK_RANGES];
    unsigned rank_count; /* 0: all ranks */
};

/* Parses a list such as "0,3-5". Returns false if the text is something else. */
bool gf_job_filter_ranks(struct gf_job_filter *filter, const char *text);

/*
 * Parses a local time, with or without a date ("2026-11-23 08:51", "08:51:09.5"), or a duration
 * before the job's end ("90s", "10m", "2h", "1d"). Returns false if the text is neither.
 */
bool gf_job_filter_since(struct gf_job_filter *filter, const char *text);

bool gf_job_filter_takes_rank(const struct gf_job_filter *filter, int64_t rank);

/*
 * Whether gf_job_filter_moment needs the job, because the filter has a duration or a time without a
 * date.
 */
bool gf_job_filter_needs_job(const struct gf_job_filter *filter);

/*
 * Returns the time from which on the filter keeps stalls; 0 without a limit. For a time without a
 * date, this is the last occurrence of the time before the job's end.
 */
double gf_job_filter_moment(const struct gf_job *job, const struct gf_job_filter *filter);

/* Removes stalls and notes that the filter excludes. Marks processes of other ranks as excluded. */
void gf_job_filter_apply(struct gf_job *job, const struct gf_job_filter *filter);

/*
 * Called after gf_job_filter_apply. If the filter removed everything from a job that has processes,
 * returns a sentence with the reason, otherwise NULL.
 */
const char *gf_job_filter_emptied(const struct gf_job *job, const struct gf_job_filter *filter);
