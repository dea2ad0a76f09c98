/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The activity of child processes, such as DataLoader workers, while the thread that feeds the GPU
 * waits for their data. Their system calls, run-queue delays and Python frames are read, because a
 * process may read those of its children. Used on the sampler's thread only. Allocates nothing.
 */
#ifndef GF_ENGINE_GPUTIME_WORKERS_H
#define GF_ENGINE_GPUTIME_WORKERS_H

#include "engine/gputime/python_line.h"
#include "engine/gputime/shares.h"

#define GF_WORKERS 16u

enum gf_worker_state {
    gf_worker_idle, /* waits for work, or has ended */
    gf_worker_busy, /* computes, or waits within its work */
    gf_worker_storage,
    gf_worker_starved, /* had no CPU for most of the time since the last reading */
    GF_WORKER_STATE_COUNT,
};

struct gf_workers {
    pid_t parent;     /* the thread that started them; 0: they were not listed yet */
    uint64_t list_ns; /* when they were last listed */
    uint64_t read_ns;
    uint64_t cost_ns;         /* the CPU time of the last reading */
    bool refused;             /* the kernel does not let this process read its children */
    enum gf_host_cause cause; /* the cause at the last reading */
    unsigned count;
    struct gf_worker {
        pid_t pid;
        uint64_t delay_ns; /* its run-queue delay at the last reading */
        bool seen;         /* delay_ns is known */
    } worker[GF_WORKERS];
};

/*
 * Returns the cause, from the number of workers in each state and the CPUs that the process may
 * use.
 */
enum gf_host_cause gf_workers_judge(const unsigned states[GF_WORKER_STATE_COUNT], unsigned cpus);

/*
 * Reads the children that the thread `parent` started. Returns the cause that they show, or
 * gf_host_data if they show none. state: the parent's PyThreadState; in forked children it has the
 * same address. *ret_line: the line of a worker in the state that decides; line 0: not known. All
 * readings take at most 1/200 of a CPU: after a long reading, the last cause is returned for some
 * time.
 */
enum gf_host_cause gf_workers_read(struct gf_workers *workers, pid_t parent, uintptr_t state,
                                   uint64_t now, struct gf_python_line *ret_line);

#endif
