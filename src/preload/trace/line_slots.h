/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots in which threads format lines of the log, and the log's counts. Processes may share the
 * slots' memory, and each can be killed or paused at any instruction. So a holder marks its slot
 * with its thread id and the time. If a holder has ended, another thread may take the slot.
 *
 * The code uses the __atomic_* builtins (base/atomic.h). It takes no lock and allocates nothing.
 * The functions may be called on any thread, also inside malloc and in a forked child.
 */
#pragma once

#include "base/json.h"
#include "preload/trace/cause.h"
#include "preload/trace/python.h"
#include "preload/trace/unwind.h"

#define GF_LINE_SLOTS_LINE 8000

/*
 * Data that a thread captures about itself. It is stored in the slot, because the thread's stack
 * may be small.
 */
struct gf_capture {
    struct gf_stack stack;
    struct gf_pystack_frame python[GF_PYTHON_FRAMES];
    _Alignas(16) unsigned char scratch[GF_UNWIND_SCRATCH];
};

/* What the writer of a line needs to know. */
struct gf_line_message {
    pid_t pid;
    unsigned char header;
    unsigned char last;        /* not 0: the line is the event `full` */
    unsigned char found;       /* not 0: the line ends with the cause of a stall, from `finding` */
    uint64_t start_ns, end_ns; /* begin and end of the stall */
    size_t length;             /* of the text */
    struct gf_finding finding;
};

/*
 * Processes may share slots and sums. One of them may have given up its privileges, and run any code. So they
 * have no pointers, and numbers of them are checked before they are used.
 */
struct gf_line_slot {
    uint64_t mark;   /* the slot's state, holder and time of the last change: see line_slots.c */
    uint64_t number; /* lines are written in the order of their numbers */
    struct gf_line_message message;
    char text[GF_LINE_SLOTS_LINE];
};

struct gf_line_sums {
    _Alignas(16) pid_t writer; /* id of the writer thread's process; 0: no writer */
    pid_t writer_thread;
    uint64_t number;
    uint64_t due_ns;     /* for the rate limit (gf_line_slots_within_rate) */
    uint64_t written;    /* in bytes */
    uint64_t dropped;    /* number of lines that were not written, for any reason */
    uint64_t reported;   /* number of dropped lines that the log has reported */
    unsigned char ended; /* the event `full` was begun */
    unsigned char torn;  /* the last write was incomplete, so the next one begins with a newline */
};

/* A slot in a process, for the thread that formats the line. */
struct gf_line {
    struct gf_line_slot *slot;
    uint64_t made_ns;
    struct gf_line_message
        message; /* gf_line_slots_ready copies it, with json's length, to the slot */
    struct gf_json json;
    struct gf_capture capture;
};

struct gf_line_slots {
    unsigned count;
    struct gf_line_sums *sums;
    struct gf_line *line;
};

/* Copies what the slot's holder has stored, with valid numbers. */
void gf_line_slots_read(const struct gf_line *line, struct gf_line_message *ret);

/*
 * Assigns a slot to the calling thread: a free slot, or one whose holder has ended. Returns NULL if
 * there is no such slot.
 */
struct gf_line *gf_line_slots_claim(struct gf_line_slots *slots, uint64_t now);

/*
 * gf_line_slots_ready hands the line over for writing; false if another thread has taken the slot
 * away from the calling thread. gf_line_slots_discard drops the line.
 */
bool gf_line_slots_ready(struct gf_line_slots *slots, struct gf_line *line, uint64_t now);
void gf_line_slots_discard(struct gf_line *line);

/*
 * Returns the oldest finished line, which the calling thread must then write. Returns NULL if no
 * line is finished. After writing, pass *ret_mark to gf_line_slots_release.
 */
struct gf_line *gf_line_slots_take(struct gf_line_slots *slots, uint64_t now, uint64_t *ret_mark);
void gf_line_slots_release(struct gf_line *line, uint64_t mark);

/*
 * Whether a finished line has not been written for more than late_ns, and no thread is writing a
 * line. A thread that waits for the file system is writing, however long it waits. The caller would
 * wait there, too.
 */
bool gf_line_slots_overdue(const struct gf_line_slots *slots, uint64_t now, uint64_t late_ns);

/*
 * Whether a thread of this process has been writing a line for more than a second: the file system
 * may not answer. A thread of another process may be stopped, or be the main thread of a process
 * that was killed and that its parent does not wait for.
 */
bool gf_line_slots_hang(const struct gf_line_slots *slots, uint64_t now);

/*
 * gf_line_slots_writing: whether a thread is writing a line. gf_line_slots_unwritten: whether a
 * line is being written, or is finished but not yet written.
 */
bool gf_line_slots_writing(const struct gf_line_slots *slots);
bool gf_line_slots_unwritten(const struct gf_line_slots *slots);

/* Whether more than 64 MiB of lines have been written. */
bool gf_line_slots_full(const struct gf_line_slots *slots);

/* Whether the rate limit allows a line: 100 lines per second, with bursts of 500. */
bool gf_line_slots_within_rate(struct gf_line_slots *slots, uint64_t now);

void gf_line_slots_count_dropped(struct gf_line_slots *slots);
/*
 * Returns the number of dropped lines that no line has reported yet. The caller must report these
 * lines.
 */
uint64_t gf_line_slots_report(struct gf_line_slots *slots);
/* Undoes gf_line_slots_report if the caller could not report the lines. */
void gf_line_slots_unreport(struct gf_line_slots *slots, uint64_t count);
