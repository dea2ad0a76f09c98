/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots in which lines of the log are made, and the log's accounts. They may lie in memory that a
 * tree of processes shares, any of which can be killed or stopped at any instruction: whoever holds a
 * slot has marked it with the time, and one that has been held for too long is taken from its holder.
 */
#ifndef GF_OBSERVE_SLOTS_H
#define GF_OBSERVE_SLOTS_H

#include "observe/cause.h"
#include "observe/json.h"
#include "observe/python.h"
#include "observe/unwind.h"

#include <sys/types.h>

#define GF_SLOTS_LINE 8000

/* What a thread says of itself, not on its own stack, which may be small. */
struct gf_capture {
    struct gf_stack stack;
    struct gf_python_frame python[GF_PYTHON_FRAMES];
    _Alignas(16) unsigned char scratch[GF_UNWIND_SCRATCH];
};

struct gf_line {
    uint64_t mark;    /* what it is, and since when: slots.c */
    uint64_t number;  /* in which order lines are written */
    pid_t pid;
    uint64_t made_ns;
    uint64_t start_ns, end_ns; /* of what the finding is about */
    bool header;
    bool found; /* the line ends with a finding */
    struct gf_finding finding;
    struct gf_json json;
    struct gf_capture capture; /* for whoever makes the line */
    char text[GF_SLOTS_LINE];
};

struct gf_slots {
    _Alignas(16) pid_t writer; /* the process whose thread writes; 0: none */
    pid_t writer_thread;
    uint64_t number;
    uint64_t due_ns;         /* the rate: when the next line would be in time */
    uint64_t written;        /* bytes */
    uint64_t left_out, told; /* lines, for their number, size or for want of room */
    bool torn;               /* the last line was cut: a new one begins with its end */
    unsigned count;
    struct gf_line *line; /* at the same address in every process */
};

/* A free one, or one whose holder was killed; NULL: all are in use. Its holder is this thread. */
struct gf_line *gf_slots_claim(struct gf_slots *slots, uint64_t now);

/* Hands it on, made, or forgets it. False if it was taken from this thread meanwhile. */
bool gf_slots_ready(struct gf_slots *slots, struct gf_line *line, uint64_t now);
bool gf_slots_drop(struct gf_line *line);

/* The one that was handed on first, to be written; NULL: none. `ret_mark` goes to the function below. */
struct gf_line *gf_slots_take(struct gf_slots *slots, uint64_t now, uint64_t *ret_mark);
void gf_slots_written(struct gf_line *line, uint64_t mark);

/* Whether lines wait for longer than late_ns though nobody is writing. */
bool gf_slots_neglected(const struct gf_slots *slots, uint64_t now, uint64_t late_ns);

/* Whether somebody is writing one; and whether there is one that is, or is ready to be, written. */
bool gf_slots_in_hand(const struct gf_slots *slots);
bool gf_slots_unwritten(const struct gf_slots *slots);

/* Whether one more is within 100 a second for long, 500 at once, 64 MiB in all. */
bool gf_slots_in_time(struct gf_slots *slots, uint64_t now);

void gf_slots_leave_out(struct gf_slots *slots);
/* How many were left out since it was last told; and that so many were not told after all. */
uint64_t gf_slots_tell(struct gf_slots *slots);
void gf_slots_untell(struct gf_slots *slots, uint64_t count);

#endif
