/* SPDX-License-Identifier: Apache-2.0 */
/* What the feeding thread does. */
#ifndef GF_ENGINE_GPUTIME_FEEDER_H
#define GF_ENGINE_GPUTIME_FEEDER_H

#include "base/base.h"
#include "engine/gputime/shares.h"

#include <sys/types.h>

/*
 * How long a thread of this process was runnable without a CPU until now, in ns; 0 if the kernel
 * does not tell. Reads a file, so it must be called in gf_measured_run.
 */
uint64_t gf_run_delay_read(pid_t tid);

/*
 * Runs work of the sampler on another thread (os/own_table.h), and sums the CPU time and the
 * run-queue delay of such threads. The sampler limits its own cost, and tells a late sample of a
 * process without a CPU from one of a paused process. The clock and the delay of its own thread do
 * not include other threads.
 */

/*
 * Like gf_own_table_run, but also sets *ret_ns to the CPU time of the work. Called on the sampler's
 * thread only.
 */
bool gf_measured_run(void (*work)(void *closure), void *closure, uint64_t *ret_ns);

/* Returns the CPU time of all calls of gf_measured_run, in ns. May be called on any thread. */
uint64_t gf_measured_run_total(void);
/*
 * Returns the run-queue delay of the threads of all calls of gf_measured_run, in ns. Delays below
 * 1 ms in a call are not counted. May be called on any thread.
 */
uint64_t gf_measured_run_delay(void);

/*
 * Finds what the thread that feeds the GPU does, from two small files of /proc. A thread with its
 * own descriptor table reads the files, which takes about 60 us of CPU time. So they are read at
 * most every 20 ms; until then, the last result is returned. Allocates nothing.
 */

struct gf_feeder {
    pid_t tid;         /* the thread that feeds the GPU; 0 before the first reading */
    uint64_t delay_ns; /* the thread's run-queue delay at the last reading */
    uint64_t read_ns;
    enum gf_host_cause cause; /* the cause at the last reading */
    uintptr_t futex;          /* the futex on which the thread slept at the last reading; 0: none */
};

/* What a thread waits for, as /proc/self/task/T/syscall shows it. */
struct gf_wait {
    /* The cause that follows from the system call alone; gf_host_computing for a running thread. */
    enum gf_host_cause cause;
    int fd;          /* the descriptor that the thread waits for, or -1 */
    uintptr_t futex; /* the futex that the thread waits for, or 0 */
    bool is_fault;   /* true if the thread is blocked outside a system call, in a page fault */
};

/*
 * Returns the cause for a wait on a descriptor. link: the target of the descriptor's link in
 * /proc/self/fd.
 */
enum gf_host_cause gf_feeder_by_link(const char *link);
/* Fills in *ret from the text of /proc/self/task/T/syscall. */
void gf_feeder_by_syscall(const char *text, struct gf_wait *ret);

/* Returns what thread `tid` does now, or what it did at the last reading. */
enum gf_host_cause gf_feeder_read(struct gf_feeder *feeder, pid_t tid, uint64_t now);

#endif
