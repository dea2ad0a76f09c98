/* SPDX-License-Identifier: Apache-2.0 */
/* Another process whose threads are stopped by ptrace, so that their stacks can be read. */
#pragma once

#include "base/base.h"

#include <sys/user.h>
struct gf_target_thread {
    pid_t tid;
    bool stopped; /* false: its registers cannot be read, for the reason in `error` */
    int error;  /* errno of the attempt to stop it; ETIMEDOUT: it does not stop; 0: no time left */
    int signal; /* arrived when the thread stopped, and is delivered when it continues */
    /*
     * All 0 unless it has stopped. x86-64's C library keeps pthread_self() in the base of segment fs.
     */
    struct user_regs_struct registers;
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
    uint64_t until_ns; /* no memory is read after this time */
    uint64_t since_ns; /* when the first thread was told to stop */
    uint8_t *known;    /* a bit for each thread id */
};

/*
 * Describes all threads of a process, then stops them and reads their registers, also threads that
 * start during the call. All of this takes a limited time: threads that do not stop, and the last of
 * very many threads, keep running. Returns 0 or an errno: ESRCH if the process does not exist, EPERM
 * if none of its threads may be traced, ENOMEM. The caller calls gf_target_release in every case, on
 * the same thread.
 */
int gf_target_stop(struct gf_target *target, pid_t pid);

/*
 * Lets the stopped threads continue as they were, and frees the memory. The kernel detaches the other
 * threads when the calling process ends, so it should end soon.
 */
void gf_target_release(struct gf_target *target);

/*
 * Reads memory of the process (pystack.h). closure is the struct gf_target. May be called in a child
 * process. If a page is in a file whose file system does not answer, the call hangs in the kernel.
 */
size_t gf_target_read(void *closure, uintptr_t address, void *ret, size_t size);
