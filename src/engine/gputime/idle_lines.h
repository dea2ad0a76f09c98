/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/gputime_api.h"
#include "engine/gputime/host_causes.h"
#include "engine/gputime/shares.h"

/*
 * Records which lines of Python the program executed while a GPU was empty, and for how long, by
 * cause. A line is read less often than samples are taken. So a line that is read gets all empty
 * time of its cause since the previous line was read for this cause.
 */

#define GF_CAUSE_LINES 48u
#define GF_IDLE_PATHS 48u

struct gf_cause_line {
    enum gf_host_cause cause;
    uint64_t ns, lately_ns; /* lately: the older the time is, the less of it counts */
    uint64_t own_ns; /* the part of ns in which the program's own code ran, apart from launches */
    struct gf_python_line at;
    /*
     * Where another thread held the lock that the thread waited for, in holder_ns of ns or more. When
     * read: where it was in three quarters of ns; its `line` is 0 if unknown.
     */
    struct gf_python_line holder;
    uint64_t holder_ns;
};

/* Where in the program the thread that feeds the GPU was. */
struct gf_idle_path {
    enum gf_host_cause cause;
    uint64_t ns;
    char text
        [GF_PYTHON_PATH]; /* see gf_python_line_read; "...;train.py:step" if it is not known whole */
};

struct gf_cause_lines {
    /* For each cause, the empty time since a line was last read for it. */
    uint64_t pending_ns[GF_HOST_CAUSE_COUNT];
    _Atomic bool locked; /* true while a thread reads or writes the members below */
    unsigned count, paths;
    struct gf_cause_line row[GF_CAUSE_LINES];
    struct gf_idle_path path[GF_IDLE_PATHS];
};

/*
 * Adds time in which the GPU was empty for this cause. The time counts for the line that is read
 * next for this cause. Called on the sampler's thread.
 */
void gf_cause_lines_add(struct gf_cause_lines *lines, enum gf_host_cause cause, uint64_t ns);
/*
 * Records that a line was read: all time that was added for this cause since its previous line was
 * read counts for this line and for this path, which may be "". If the table of lines is full, the
 * line is ignored; a new path replaces the one with the least time. is_own: see own_ns. holder: where
 * another thread holds the lock that the thread waits for; NULL or `line` 0 if unknown. Called on the
 * sampler's thread.
 */
void gf_cause_lines_see(struct gf_cause_lines *lines, enum gf_host_cause cause,
                        const struct gf_python_line *at, const char *path, bool is_own,
                        const struct gf_python_line *holder);

/* Called when the whole time has grown by a quarter. */
void gf_cause_lines_age(struct gf_cause_lines *lines);

/*
 * Sets ret[cause] to the line with the most time lately, and to a line of a library only if no line of
 * the program is known; its `line` is 0 if no line is known. A line that mostly did something else is
 * none at which the thread submitted work that is too short. May be called on any thread.
 */
void gf_cause_lines_read(struct gf_cause_lines *lines,
                         struct gf_cause_line ret[GF_HOST_CAUSE_COUNT]);

/* Reads a path. Returns false if there are no more. May be called on any thread. */
bool gf_idle_path_read(struct gf_cause_lines *lines, unsigned number, struct gf_idle_path *ret);

/*
 * Finds what the host does while a GPU is empty: what the thread that feeds the GPU waits for, at
 * which line of Python, who holds Python's lock, and what child processes do whose data the thread
 * waits for. Used on the sampler's thread only.
 */

struct gf_host {
    struct gf_feeder feeder, python_feeder;
    struct gf_workers workers;
    struct gf_cause_lines lines;
    uint64_t read_ns, cost_ns;       /* time and CPU time of the last reading */
    struct gf_python_line wait_line; /* where the thread last waited for a busy GPU */
    uint64_t wait_ns;                /* when that line was read */
    uint64_t frames_ns;              /* when the frames of frames_tid were last read */
    pid_t frames_tid;
    enum gf_host_cause call;  /* the driver call at the last reading */
    enum gf_host_cause cause; /* what the reading showed */
    struct gf_python_line at; /* the line of that cause; its `line` is 0 if unknown */
};

struct gf_host_sample {
    uint64_t now;
    pid_t tid; /* the thread that feeds the GPU */
    /* The thread that began to feed GPUs, which decides if `tid` has ended; its PyThreadState or 0. */
    pid_t starter;
    uintptr_t starter_python;
    /* The last thread that fed the GPU and has a PyThreadState; 0: none. */
    pid_t python_tid;
    uintptr_t python;
    enum gf_host_cause call; /* driver or gpu_wait if a thread is inside such a call, else other */
    uint64_t between_ns;     /* the mean time between submissions, or the time since the last one */
    bool launch_bound;       /* the thread submits work in quick succession */
    /* The thread submits work between any two samples, and has waited for the GPU since, or often. */
    bool after_wait;
    bool wait_is_near; /* the thread waits for half of what it submits, within 0.1 ms */
    const struct gf_submit_gap *gap; /* NULL: the GPU waits for a peer */
};

/*
 * Called at a sample at which a thread waits for a busy GPU. Reads the line of that wait at most
 * every 50 ms; that of the starter if the thread `python` has no frames.
 */
void gf_host_see_wait(struct gf_host *host, uintptr_t python, uintptr_t starter, uint64_t now);

/*
 * Returns the cause of the gap. Makes a reading at most every 20 ms, and of at most 1/200 of a CPU;
 * between readings, returns the last result.
 */
enum gf_host_cause gf_host_find_cause(struct gf_host *host, const struct gf_host_sample *sample);
