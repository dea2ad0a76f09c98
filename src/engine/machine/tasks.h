/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads and children of processes, from /proc. Makes only system calls, allocates nothing, and is
 * not a cancellation point. Any thread; errno may change. pid 0 is the calling process. A walk
 * visits each thread that exists during the whole walk. It may miss threads that start or end
 * during the walk.
 */
#ifndef GF_ENGINE_MACHINE_TASKS_H
#define GF_ENGINE_MACHINE_TASKS_H

#include "base/cpus.h"

#include <sys/types.h>

/*
 * Calls visit for each thread, with a descriptor of the process's task folder for the functions
 * below. Returns 0, or -errno if the process has ended or is hidden.
 */
int gf_tasks_each(pid_t pid, void (*visit)(void *closure, int task, pid_t tid), void *closure);

/*
 * Whether the calling process has children. Cheaper than a walk: one system call instead of one
 * file for each thread.
 */
bool gf_tasks_has_children(void);

/* Calls visit for each child that the thread created. 0, or -errno if the kernel lacks the file. */
int gf_tasks_children(int task, pid_t tid, void (*visit)(void *closure, pid_t child),
                      void *closure);

/*
 * Finds the start of the first mapping whose file path contains needle. 0; -ENOENT if there is
 * none; another -errno if the maps cannot be read.
 */
int gf_tasks_find_map(pid_t pid, const char *needle, uintptr_t *ret);

/*
 * The start time of a process, and the present time, on the same clock: ticks since boot. 0 or
 * -errno.
 */
int gf_tasks_start_time(pid_t pid, uint64_t *ret);
uint64_t gf_tasks_now(void);

/* The mask of a thread. Makes the system call directly, so no hook sees it. 0 or -errno. */
int gf_tasks_get_mask(pid_t tid, struct gf_cpus *ret);
int gf_tasks_set_mask(pid_t tid, const struct gf_cpus *cpus);

/*
 * The memory policy of a thread, in the kernel's words: "default", "prefer:1", "bind:0-1". Read
 * from the thread's first mapping, which has no policy of its own and so shows the thread's. 0 or
 * -errno.
 */
int gf_tasks_policy(int task, pid_t tid, char *buf, size_t size);

/* The resources that a thread has used so far, and its name. 0 or -errno. */
struct gf_task_account {
    uint64_t run_ns, delay_ns; /* time on a CPU; time in which it was runnable without a CPU */
    uint64_t minor, major;     /* page faults */
    char name[32];
};
int gf_tasks_account(int task, pid_t tid, struct gf_task_account *ret);

/* Time on a CPU and run-queue delay, from schedstat. 0 or -errno. */
int gf_tasks_schedstat(int task, pid_t tid, uint64_t *ret_run_ns, uint64_t *ret_delay_ns);

#endif
