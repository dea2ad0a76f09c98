/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the threads and children of processes from /proc. The functions make only system calls,
 * allocate nothing, and are not cancellation points. They may be called on any thread; errno may
 * change. pid 0 is the calling process. gf_tasks_each visits each thread that exists during the
 * whole call. It may miss threads that start or end during the call.
 */
#pragma once

#include "base/cpus.h"

/*
 * Calls visit for each thread. `task` is a descriptor of the process's task folder, for use in the
 * functions below. Returns 0, or -errno if the process has ended or is hidden.
 */
int gf_tasks_each(pid_t pid, void (*visit)(void *closure, int task, pid_t tid), void *closure);

/*
 * Whether the calling process has children. This takes only one system call, whereas
 * gf_tasks_children reads a file of each thread.
 */
bool gf_tasks_has_children(void);

/*
 * Calls visit for each child that the thread created; for none if the kernel lacks the file of
 * children.
 */
void gf_tasks_children(int task, pid_t tid, void (*visit)(void *closure, pid_t child),
                       void *closure);

/*
 * Finds the start of the first mapping whose file path contains needle. Returns 0 if found, -ENOENT
 * if no path contains it, or another -errno if the maps cannot be read. ret may be NULL.
 */
int gf_tasks_find_map(pid_t pid, const char *needle, uintptr_t *ret);

/*
 * Read the start time of a process, and the present time, on the same clock: ticks since boot.
 * gf_tasks_start_time returns 0 or -errno.
 */
int gf_tasks_start_time(pid_t pid, uint64_t *ret);
uint64_t gf_tasks_now(void);

/*
 * Read and set the CPU mask of a thread. The system calls are made directly, so no hook sees them.
 * Return 0 or -errno.
 */
int gf_tasks_get_mask(pid_t tid, struct gf_cpus *ret);
int gf_tasks_set_mask(pid_t tid, const struct gf_cpus *cpus);

/*
 * Reads the memory policy of a thread, in the kernel's words: "default", "prefer:1", "bind:0-1". It
 * is read from the line of the first mapping in numa_maps. This mapping has no policy of its own,
 * so its line shows the policy of the thread. Returns 0 or -errno.
 */
int gf_tasks_policy(int task, pid_t tid, char *buf, size_t size);

/* The resources that a thread has used so far, and its name. */
struct gf_task_account {
    /* Time on a CPU; time in which the thread was runnable without a CPU. */
    uint64_t run_ns, delay_ns;
    uint64_t minor, major; /* page faults */
    char name[32];
};
int gf_tasks_account(int task, pid_t tid, struct gf_task_account *ret);

/* Reads the time on a CPU and the run-queue delay from schedstat. Returns 0 or -errno. */
int gf_tasks_schedstat(int task, pid_t tid, uint64_t *ret_run_ns, uint64_t *ret_delay_ns);
