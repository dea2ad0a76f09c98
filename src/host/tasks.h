/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads and children of processes, from /proc. Nothing here allocates. pid 0 is the calling
 * process. A walk sees each thread that lives throughout it, and perhaps some that do not.
 */
#ifndef GF_HOST_TASKS_H
#define GF_HOST_TASKS_H

#include "base/cpus.h"

#include <sys/types.h>

/*
 * Calls see for each thread, with a descriptor of the process's task folder for the functions
 * below. 0, or -errno when the process is gone or hidden.
 */
int gf_tasks_each(pid_t pid, void (*see)(void *closure, int task, pid_t tid), void *closure);

/* Whether the calling process has children at all: one call, where the walk opens a file a thread. */
bool gf_tasks_has_children(void);

/* Calls see for each child that the thread created. 0 or -errno (kernels without the file). */
int gf_tasks_children(int task, pid_t tid, void (*see)(void *closure, pid_t child), void *closure);

/*
 * Where the first mapping begins whose file's path holds needle. 0; -ENOENT when there is none;
 * another -errno when the maps cannot be read.
 */
int gf_tasks_find_map(pid_t pid, const char *needle, uintptr_t *ret);

/* When a process was born, and now, on the same clock: ticks since boot. */
int gf_tasks_born(pid_t pid, uint64_t *ret);
uint64_t gf_tasks_now(void);

/* The mask of a thread, by number so that no hook sees it. 0 or -errno. */
int gf_tasks_get_mask(pid_t tid, struct gf_cpus *ret);
int gf_tasks_set_mask(pid_t tid, const struct gf_cpus *cpus);

/*
 * What the kernel leaves of a mask of all CPUs: what the process might use, had nobody narrowed its
 * mask. Asked by a child process that lives for that moment, so that no mask of the program's is
 * ever wider, not for an instant. 0 or -errno.
 */
int gf_tasks_allowed(struct gf_cpus *ret);

/* What a thread has used and met so far, and its name. 0 or -errno. */
struct gf_task_account {
    uint64_t run_ns, delay_ns; /* on a CPU, and runnable without one */
    uint64_t minor, major;     /* page faults */
    char name[32];
};
int gf_tasks_account(int task, pid_t tid, struct gf_task_account *ret);

/* Time on a CPU and time runnable without one, from schedstat. 0 or -errno. */
int gf_tasks_schedstat(int task, pid_t tid, uint64_t *ret_run_ns, uint64_t *ret_delay_ns);

#endif
