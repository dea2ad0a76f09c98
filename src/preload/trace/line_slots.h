/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots in which threads format lines of the log, and the log's counts. Processes may share the
 * slots' memory, and each of them can be killed or paused at any instruction. So a holder marks its
 * slot with its thread and the time, and a slot whose holder has ended is given to another thread.
 *
 * C11 atomics do not cover words that processes share, so the __atomic_* builtins are used. No
 * lock, no allocation; any thread, inside malloc, in a forked child.
 */
#ifndef GF_PRELOAD_TRACE_LINE_SLOTS_H
#define GF_PRELOAD_TRACE_LINE_SLOTS_H

#include "preload/trace/cause.h"
#include "base/json.h"
#include "preload/trace/python/python.h"
#include "preload/trace/unwind/unwind.h"

#include <sys/types.h>

#define GF_LINE_SLOTS_LINE 8000

/*
 * The data that a thread captures about itself. It stands here because the thread's own stack may
 * be small.
 */
struct gf_capture {
    struct gf_stack stack;
    struct gf_pystack_frame python[GF_PYTHON_FRAMES];
    _Alignas(16) unsigned char scratch[GF_UNWIND_SCRATCH];
};

struct gf_line {
    uint64_t mark;   /* the slot's state, and the time of its last change: see line_slots.c */
    uint64_t number; /* lines are written in the order of their numbers */
    pid_t pid;
    uint64_t made_ns;
    uint64_t start_ns, end_ns; /* of the call that the finding describes */
    bool header;
    bool last;  /* the line says that the log is full */
    bool found; /* the line ends with a finding */
    struct gf_finding finding;
    struct gf_json json;
    struct gf_capture capture; /* used by the thread that formats the line */
    char text[GF_LINE_SLOTS_LINE];
};

struct gf_line_slots {
    _Alignas(16) pid_t writer; /* the writer thread's process; 0 if absent */
    pid_t writer_thread;
    uint64_t number;
    uint64_t due_ns;   /* for the rate limit: when the next line may begin */
    uint64_t written;  /* in bytes */
    uint64_t dropped;  /* lines beyond the rate or size limit, or without a free slot */
    uint64_t reported; /* how many dropped lines the log has reported */
    bool ended;        /* the line that says that the log is full was begun */
    bool torn;         /* the last write was cut short, so the next write begins with a newline */
    unsigned count;
    struct gf_line *line; /* at the same address in every process that shares the slots */
};

/* Gives this thread a free slot, or one whose holder has ended. NULL if all slots are in use. */
struct gf_line *gf_line_slots_claim(struct gf_line_slots *slots, uint64_t now);

/*
 * Passes the finished line on (ready), or drops it (discard). False if the slot was taken from this
 * thread.
 */
bool gf_line_slots_ready(struct gf_line_slots *slots, struct gf_line *line, uint64_t now);
bool gf_line_slots_discard(struct gf_line *line);

/*
 * Takes the oldest finished line, for this thread to write; NULL if absent. *ret_mark is an
 * argument of gf_line_slots_release.
 */
struct gf_line *gf_line_slots_take(struct gf_line_slots *slots, uint64_t now, uint64_t *ret_mark);
void gf_line_slots_release(struct gf_line *line, uint64_t mark);

/* Whether a line has waited for longer than late_ns while no thread writes. */
bool gf_line_slots_overdue(const struct gf_line_slots *slots, uint64_t now, uint64_t late_ns);

/*
 * writing: whether a thread is writing a line. unwritten: whether a line is being written or waits
 * to be written.
 */
bool gf_line_slots_writing(const struct gf_line_slots *slots);
bool gf_line_slots_unwritten(const struct gf_line_slots *slots);

/* Whether the lines written take more than 64 MiB. */
bool gf_line_slots_full(const struct gf_line_slots *slots);

/* Whether one more line is within the rate: 100 lines per second, and bursts of 500. */
bool gf_line_slots_within_rate(struct gf_line_slots *slots, uint64_t now);

void gf_line_slots_count_dropped(struct gf_line_slots *slots);
/*
 * Returns how many dropped lines are unreported, and marks them as reported. The caller reports
 * them.
 */
uint64_t gf_line_slots_report(struct gf_line_slots *slots);
/* Undoes gf_line_slots_report if the caller could not report them. */
void gf_line_slots_unreport(struct gf_line_slots *slots, uint64_t count);

#endif
