/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The activity of the thread that feeds the GPU, from two small files of /proc. A thread with its
 * own descriptor table reads them, which takes about 60 us of CPU time. So they are read at most
 * every 20 ms, and the last answer is used in between. Allocates nothing.
 */
#ifndef GF_ENGINE_GPUTIME_FEEDER_H
#define GF_ENGINE_GPUTIME_FEEDER_H

#include "engine/gputime/shares.h"

#include <sys/types.h>

struct gf_feeder {
    pid_t tid;         /* 0: not known yet */
    uint64_t delay_ns; /* its run-queue delay at the last reading */
    uint64_t read_ns;
    enum gf_host_cause cause; /* the cause at the last reading */
    uintptr_t futex;          /* the futex on which it slept at the last reading; 0: none */
};

/* A wait as /proc/self/task/T/syscall shows it. */
struct gf_wait {
    /* The cause that the system call shows; gf_host_computing for a running thread. */
    enum gf_host_cause cause;
    int fd;          /* the descriptor that it waits for, or -1 */
    uintptr_t futex; /* the futex that it waits for, or 0 */
    bool is_fault;   /* blocked outside a system call: in a page fault */
};

/* The cause for a wait on a descriptor, by the target of its link in /proc/self/fd. */
enum gf_host_cause gf_feeder_by_link(const char *link);
/* Describes the wait by the text of /proc/self/task/T/syscall. */
void gf_feeder_by_syscall(const char *text, struct gf_wait *ret);

/* The activity of thread `tid` now, or at the last reading. */
enum gf_host_cause gf_feeder_read(struct gf_feeder *feeder, pid_t tid, uint64_t now);

#endif
