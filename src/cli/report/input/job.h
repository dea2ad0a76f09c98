/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What logs and reports say about a job: its processes, and each stall as a few numbers. Times are
 * seconds since 1970. Texts are numbers of `texts`, and contain no control characters. One thread
 * uses a job at a time; the job owns everything below it.
 */
#ifndef GF_CLI_REPORT_INPUT_JOB_H
#define GF_CLI_REPORT_INPUT_JOB_H

#include "cli/report/input/text_pool.h"

#include <jansson.h>

#define GF_NO_STEP INT64_MIN

/* A process. If it executes another program, that program is another process with the same id. */
struct gf_job_process {
    int64_t pid, ppid, rank; /* rank is -1 if unknown */
    uint32_t host, program;  /* "" if unknown */
    double first, last;      /* times of its first and last line or, without a log, of its report */
    uint64_t delay_ms, throttled_ms, fault_ms; /* sums over its threads */
    uint64_t dropped;                          /* lines that its log lacks */
    bool logged;
    bool excluded;  /* by a filter; then it has no stalls and no notes */
    json_t *report; /* NULL without one */
};

struct gf_job_thread {
    uint32_t process, name;
    int64_t tid;
};

/* Different stacks. Frames are the innermost last. */
struct gf_job_stack {
    uint32_t site;  /* the call site: the program's own innermost line, else the innermost frame */
    uint32_t frame; /* index into frames */
    uint32_t count;
    bool is_python;
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
    bool gap; /* the log lacks the marks that follow, so the end of the step is unknown */
};

/* A line that is no stall: decided, rebound, widened, left_to_driver, ring, full. */
struct gf_note {
    double at;
    uint32_t process, kind, text;
};

struct gf_job {
    struct gf_text_pool texts;
    struct gf_text_pool stack_keys, thread_keys; /* a key's number is that of its object, plus 1 */
    struct gf_job_process *processes;
    struct gf_job_thread *threads;
    struct gf_job_stack *stacks;
    struct gf_stall *stalls;
    struct gf_note *notes;
    struct gf_step_mark *marks; /* of one process in the order of its log */
    uint32_t *frames;           /* texts */
    size_t process_count, thread_count, stack_count, stall_count, note_count, mark_count,
        frame_count;
    size_t process_room, thread_room, stack_room, stall_room, note_room, mark_room, frame_room;
    uint64_t lost; /* events for which memory was short */
};

/*
 * Makes room for an element after the first `count`. Returns the list, which may have moved. NULL
 * if memory is short; then the list stays as it is.
 */
void *gf_job_grown(void *list, size_t element, size_t count, size_t *room);

/* Adds a process without any data. UINT32_MAX if memory is short. */
uint32_t gf_job_add_process(struct gf_job *job);

/* The thread of a process; it is created when it is first asked for. UINT32_MAX as above. */
uint32_t gf_job_thread_of(struct gf_job *job, uint32_t process, int64_t tid);

const char *gf_job_text(const struct gf_job *job, uint32_t text);

void gf_job_free(struct gf_job *job);

#endif
