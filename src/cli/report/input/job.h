/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job as logs and reports describe it: processes, threads, stalls, stacks. Times are seconds since
 * 1970. A text is an index into `texts`, and contains no control characters. A job owns its lists;
 * only one thread at a time may use it.
 */
#ifndef GF_CLI_REPORT_INPUT_JOB_H
#define GF_CLI_REPORT_INPUT_JOB_H

#include "cli/report/input/text_pool.h"

#include <jansson.h>

#define GF_NO_STEP INT64_MIN

/* One program of a process. After execve, the new program is another entry with the same pid. */
struct gf_job_process {
    int64_t pid, ppid, rank; /* rank is -1 if unknown */
    uint32_t host, program;  /* "" if unknown */
    double first, last;      /* times of its first and last line or, without a log, of its report */
    uint64_t delay_ms, throttled_ms, fault_ms; /* sums over its threads */
    uint64_t dropped;                          /* log lines that the process dropped */
    bool logged;
    bool excluded;  /* a filter excludes it, and has removed its stalls and notes */
    json_t *report; /* NULL without one */
};

struct gf_job_thread {
    uint32_t process, name;
    int64_t tid;
};

/* A distinct stack. The innermost frame is the last one. */
struct gf_job_stack {
    uint32_t site;   /* the call site: the program's own innermost line, else the innermost frame */
    uint32_t caller; /* the next outer line of the program itself; 0 if there is none */
    uint32_t frame;  /* index into frames */
    uint32_t count;
};

struct gf_stall {
    double at;          /* when the call began */
    int64_t step, size; /* GF_NO_STEP; -1 if unknown */
    uint32_t us;
    uint32_t process, thread, stack;
    uint32_t cause, call; /* texts */
};

/* A mark of the program: a step begins, and the one before it has ended. */
struct gf_step_mark {
    double at;
    uint64_t step; /* 0: only the end */
    uint32_t process, thread;
    bool gap; /* the log lacks the next marks, so the end of this step is unknown */
};

#define GF_ACTIVITY_STATES 5

/* Names of the GPU's states, in the order of struct gf_activity. */
extern const char *const gf_activity_states[GF_ACTIVITY_STATES];

/* The activity of a process's GPUs and copies in an interval. */
struct gf_activity {
    double from, to;
    double state_s[GF_ACTIVITY_STATES]; /* time of all its GPUs, by state */
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
        thread_keys; /* maps keys to elements: a key's number is its element's index + 1 */
    struct gf_job_process *processes;
    struct gf_job_thread *threads;
    struct gf_job_stack *stacks;
    struct gf_stall *stalls;
    struct gf_note *notes;
    struct gf_step_mark *marks; /* marks of one process are in the order of its log */
    struct gf_activity *activity;
    struct gf_long_copy *copies;
    json_t *doctors;  /* findings of `gpufeed doctor --json`; NULL without any */
    uint32_t *frames; /* texts */
    size_t process_count, thread_count, stack_count, stall_count, note_count, mark_count,
        activity_count, copy_count, frame_count;
    size_t process_room, thread_room, stack_room, stall_room, note_room, mark_room, activity_room,
        copy_room, frame_room;
    double since;  /* earlier stalls, steps and activity were removed; 0 if none were */
    uint64_t lost; /* events that were not stored, because memory was short or a list was full */
};

/*
 * Makes room for one more element. Returns the list, which may have moved. NULL if memory is short;
 * the old list is still valid then.
 */
void *gf_job_grown(void *list, size_t element, size_t count, size_t *room);

/* Adds a process without any data. UINT32_MAX if memory is short. */
uint32_t gf_job_add_process(struct gf_job *job);

/* Finds or adds a thread of a process. UINT32_MAX if memory is short. */
uint32_t gf_job_thread_of(struct gf_job *job, uint32_t process, int64_t tid);

const char *gf_job_text(const struct gf_job *job, uint32_t text);

void gf_job_free(struct gf_job *job);

#endif
