/* SPDX-License-Identifier: Apache-2.0 */
/* What worker processes do. */
#pragma once

#include "base/base.h"
#include "engine/gputime/python_line.h"
#include "engine/gputime/shares.h"

/*
 * Finds the PyThreadState of the main thread of a child process. In a forked child, it is the state
 * of the thread that forked. A child that multiprocessing started by `spawn` or `forkserver` has
 * executed the interpreter's file again, so its addresses differ. In such a child, the interpreter
 * is found by its file in the list of mappings. The offsets of the members that lead to the thread
 * state are found in this process, which runs the same interpreter. So they need no table of
 * CPython's versions. Used on the sampler's thread only. Allocates nothing.
 */

/* The result of a search. All zero: no search has found the child's thread state. */
struct gf_child_python {
    uintptr_t state;       /* the main thread's state, an address in the child */
    uintptr_t interpreter; /* the interpreter's state, to which `state` points */
};

/*
 * Finds what child processes, such as DataLoader workers, do while the thread that feeds the GPU
 * waits for their data. It reads the system calls, run-queue delays and Python frames of the
 * children, which the kernel usually permits a parent. Used on the sampler's thread only. Allocates
 * nothing.
 */

#define GF_WORKERS 16u

enum gf_worker_state {
    gf_worker_idle, /* the worker waits for work, or has ended */
    gf_worker_busy, /* the worker has run for half of the time since the last reading */
    gf_worker_storage,
    gf_worker_starved, /* the worker had no CPU for most of that time */
    gf_worker_sleeps,
    gf_worker_locked,  /* the worker waits for a lock */
    gf_worker_unknown, /* the worker waits for something else */
    GF_WORKER_STATE_COUNT,
};

struct gf_workers {
    pid_t parent;     /* the thread that created the children; 0: none were listed yet */
    uint64_t list_ns; /* when the children were last listed */
    uint64_t read_ns;
    uint64_t cost_ns;         /* CPU time that the last reading took */
    bool refused;             /* true if the kernel does not let this process read its children */
    enum gf_host_cause cause; /* the cause at the last reading */
    unsigned count;
    struct gf_worker {
        pid_t pid;
        /* The run-queue delay of its main thread and its CPU time at the last reading. */
        uint64_t delay_ns, run_ns;
        bool seen;                  /* true if both are known */
        enum gf_worker_state waits; /* its state when it was last found waiting */
        struct gf_child_python python;
        uint64_t search_ns; /* when to search for the child's Python again */
        unsigned searches;
    } worker[GF_WORKERS];
};

/*
 * Returns the cause that follows from the number of workers in each state and the number of CPUs
 * that the process may use.
 */
enum gf_host_cause gf_workers_judge(const unsigned states[GF_WORKER_STATE_COUNT], unsigned cpus);

/*
 * Reads the states of the children that the thread `parent` created, and of the children of its
 * fork server. Returns the cause that follows from these states, or gf_host_data if none does.
 * state: the address of the parent's PyThreadState. *ret_line: the line of a worker whose state
 * decides the cause; its `line` is 0 if unknown. All readings together take at most 1/200 of a CPU:
 * after a long reading, the last cause is returned for some time.
 */
enum gf_host_cause gf_workers_read(struct gf_workers *workers, pid_t parent, uintptr_t state,
                                   uint64_t now, struct gf_python_line *ret_line);
