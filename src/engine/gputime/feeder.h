/* SPDX-License-Identifier: Apache-2.0 */
/* What the feeding thread does. */
#pragma once

#include "base/base.h"
#include "engine/gputime/waits.h"

/*
 * How long a thread of this process was runnable without a CPU until now, in ns; 0 if the kernel
 * does not tell. Sets *ret_run_ns to its CPU time. Reads a file, so it must be called in
 * gf_measured_run.
 */
uint64_t gf_run_delay_read(pid_t tid, uint64_t *ret_run_ns);

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
 * Reads what a thread does: its system call, the object that it waits for, and whether it was
 * running or waited for a CPU. Called in gf_measured_run. Allocates nothing.
 */

#define GF_FEEDER_TEXT 160u

struct gf_feeder {
    pid_t tid;                 /* the thread of the last reading; 0 before it */
    uint64_t run_ns, delay_ns; /* its CPU time and run-queue delay at that time */
    /* Recent CPU time and run-queue delay: at each reading, half of what they were. */
    uint64_t recent_run_ns, recent_delay_ns;
    int owed; /* thousandths of a reading in which the thread had no CPU, not yet told */
};

struct gf_feeder_facts {
    struct gf_wait wait;
    bool
        starved; /* the thread is runnable; true for the part of the readings in which it had no CPU of late */
    char text[GF_FEEDER_TEXT]; /* /proc/PID/task/T/syscall */
};

/* pid: the thread's process; 0: this process. Returns 0 or -errno of the first file. */
int gf_feeder_read_call(pid_t pid, pid_t tid, struct gf_feeder_facts *ret);
/* Reads what thread `tid` of this process does. Returns 0 or -errno: -ENOENT if it has ended. */
int gf_feeder_read(struct gf_feeder *feeder, pid_t tid, struct gf_feeder_facts *ret);
/* Returns what the thread with this PyThreadState waits for: facts->wait.kind, or gf_wait_queue. */
enum gf_wait_kind gf_feeder_kind(pid_t pid, uintptr_t state, const struct gf_feeder_facts *facts);
/* Whether the thread still does the same as at the reading `facts`. */
bool gf_feeder_is_same(pid_t tid, const struct gf_feeder_facts *facts);
