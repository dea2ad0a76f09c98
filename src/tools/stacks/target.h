/* SPDX-License-Identifier: Apache-2.0 */
/* Another process whose threads are stopped by ptrace, so that their stacks can be read. */
#pragma once

#include "base/base.h"

struct gf_target_thread {
    pid_t tid;
    bool stopped;          /* false: its registers cannot be read, for the reason in `error` */
    int error;             /* errno of the attempt to stop it; ETIMEDOUT: it does not stop */
    int signal;            /* arrived when the thread stopped, and is delivered when it continues */
    uintptr_t thread_area; /* pthread_self() of that thread; 0: unknown */
    char name[32];
    char state;     /* its state before it was stopped, as in /proc/PID/stat: R, S, D, T or Z */
    long syscall;   /* number of the system call in which it waits; -1: none, or unknown */
    char cpus[256]; /* the CPUs that it may use, as a list */
    int cpu;        /* the CPU that it ran on last; -1: unknown */
};

struct gf_target {
    pid_t pid;
    struct gf_target_thread *threads; /* sorted by thread id */
    size_t count;
};

/*
 * Stops all threads of a process, also threads that start during the call, and describes them.
 * Waits a limited time; a thread in an uninterruptible wait keeps running. Returns 0 or an errno:
 * ESRCH if the process does not exist, EPERM if none of its threads may be traced, ENOMEM. The
 * caller calls gf_target_release in every case. Must be called on the thread that later reads the
 * process's memory and registers.
 */
int gf_target_stop(struct gf_target *target, pid_t pid);

/*
 * Lets the stopped threads continue as they were, and frees the memory. The kernel detaches the other
 * threads when the calling process ends, so it should end soon.
 */
void gf_target_release(struct gf_target *target);

/* Reads memory of the process (pystack.h). closure is the struct gf_target. */
size_t gf_target_read(void *closure, uintptr_t address, void *ret, size_t size);
