/* SPDX-License-Identifier: Apache-2.0 */
/* Limits and settings of this process, and permitted calls. */
#pragma once

#include "base/cpus.h"
#include "os/launch.h"

/* Calls a function in a child process, so that what it sets for its process ends with the child. */

/*
 * The child shares this memory, and the caller waits for it. The function makes only system calls.
 * 0 if the child ran. But under a tool that turns the clone into a fork, the child writes to a copy
 * of the memory. Otherwise -errno. Any thread; keeps errno.
 */
int gf_child_call(int (*function)(void *closure), void *closure);

/* Finds the CPUs that the kernel would let this process use if its mask had not been narrowed. */

/*
 * Sets *ret to the mask that the kernel keeps when a process sets a mask of all CPUs. A short-lived
 * child process sets this mask, so no mask of the program is ever widened. Returns 0 or -errno.
 */
int gf_allowed_cpus(struct gf_cpus *ret);

/*
 * The limits under which this process runs, and the settings of launchers, frameworks and the user.
 */

struct gf_facts {
    /* The CPU mask before the library acted; see struct gf_startup_env and GPUFEED_BOUND. */
    struct gf_cpus start;
    /*
     * The CPUs that the process could use with the widest mask. They are read from the cpuset
     * cgroup, because Cpus_allowed shows only the present mask. If no cgroup file contains them,
     * they come from gf_allowed_cpus. If that fails, they are all online CPUs. If the start mask
     * contains no isolated CPU, neither does this set.
     */
    struct gf_cpus cpuset;
    struct gf_nodes mems; /* nodes on which the process may allocate (Mems_allowed) */
    /* Isolated CPUs (isolcpus=) that were removed from `cpuset`. */
    struct gf_cpus isolated;
    /* Mode of the memory policy before the library acted, or -errno. */
    int start_policy;
    struct gf_nodes start_policy_nodes; /* nodes of that policy; empty if it has none */
    /*
     * At the time of a decision: the CPUs in the masks of those threads of the program that have
     * set their own mask (gf_thread_binding_read_own). Empty if no thread has. all_own: whether no
     * thread has the start mask.
     */
    struct gf_cpus own;
    bool all_own;
    double cpu_quota; /* the CPU quota in CPUs; 0 if unlimited */
    /* Name of the variable that pins threads: OMP_PROC_BIND, KMP_AFFINITY, ...; NULL if none is set. */
    const char *pinning_source;
    /*
     * Name of the variable or flag with which a framework binds its workers; NULL if none is set.
     */
    const char *binder_source;
    /*
     * Copies of CUDA_MPS_ACTIVE_THREAD_PERCENTAGE and CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, "" if not set:
     * the program may free its environment.
     */
    char mps_threads[16], mps_memory[128];
    struct gf_rank rank;
    unsigned threads; /* number of threads of this process */
    bool numa_balancing;
};

/*
 * Reads the facts from /proc and /sys below root (os/procfs.h), and from envp. start: the CPU mask
 * that was recorded at the start. A fact that cannot be read has its value for "unknown".
 */
void gf_facts_gather(const char *root, char *const *envp, const struct gf_cpus *start,
                     struct gf_facts *ret);

/*
 * Returns the number of threads for a process that started with the mask `start` and is bound to
 * `bound`: its part of the CPUs, not above the quota, at least 1. quota: 0 if unlimited. ranks: the
 * processes that share the CPUs; below 2 if there are no others.
 */
unsigned gf_facts_thread_count(const struct gf_cpus *start, const struct gf_cpus *bound,
                               double quota, int ranks);

/*
 * Finds which calls the kernel permits this process, by trying them. Capability bits and the
 * seccomp mode do not show this, because a container's profile may refuse any of these calls with
 * EPERM or ENOSYS.
 */

/*
 * An errno that none of these calls returns. ENOSYS is not used, because a seccomp filter may
 * return it.
 */
#define GF_UNTRIED ECANCELED

/* Each member is 0 if the call succeeded, otherwise the call's errno or GF_UNTRIED. */
struct gf_probe {
    int set_affinity;
    int get_mempolicy;
    int set_mempolicy;  /* set_mempolicy with MPOL_PREFERRED and the given node */
    int preferred_many; /* set_mempolicy with MPOL_PREFERRED_MANY; EINVAL before Linux 5.15 */
    int mbind;          /* mbind of a page that is mapped for the test */
};

/*
 * Tries the calls in a child process, so that they set nothing in this one. Without a child, each
 * is GF_UNTRIED. node has memory.
 */
void gf_probe_run(unsigned node, const struct gf_cpus *cpus, struct gf_probe *ret);
/* Tries them on the calling thread, which then restores its mask and policy. */
void gf_probe_here(unsigned node, const struct gf_cpus *cpus, struct gf_probe *ret);

/*
 * Returns a remedy for a refused call as one line, such as "--cap-add SYS_NICE"; NULL if unknown.
 */
const char *gf_probe_remedy(int error);
