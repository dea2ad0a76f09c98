/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits under which this process runs, and the settings of launchers, frameworks and the user.
 */
#ifndef GF_ENGINE_MACHINE_FACTS_H
#define GF_ENGINE_MACHINE_FACTS_H

#include "base/cpus.h"
#include "os/launch.h"

struct gf_facts {
    struct gf_cpus
        /* The CPU mask before the library acted; see struct gf_startup_env and GPUFEED_BOUND. */
        start;
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
    /* True if OMP_PROC_BIND, KMP_AFFINITY, I_MPI_PIN or the like is set. */
    bool single_cpu_pinning;
    const char *pinning_source; /* name of that variable; NULL if none is set */
    /*
     * Name of the variable or flag with which a framework binds its workers; NULL if none is set.
     */
    const char *binder_source;
    struct gf_rank rank;
    unsigned threads; /* number of threads of this process */
    bool numa_balancing;
};

/*
 * Reads the facts from /proc and /sys below root (os/procfs.h), and from envp. start: the CPU mask
 * that was recorded at the start. A fact that cannot be read has its value for "unknown". Members
 * of *ret point into envp.
 */
void gf_facts_gather(const char *root, char *const *envp, const struct gf_cpus *start,
                     struct gf_facts *ret);

#endif
