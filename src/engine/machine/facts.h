/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits that this process runs under, and the settings that launchers, frameworks and the user
 * made.
 */
#ifndef GF_ENGINE_MACHINE_FACTS_H
#define GF_ENGINE_MACHINE_FACTS_H

#include "base/cpus.h"
#include "os/launch.h"

struct gf_facts {
    struct gf_cpus
        start; /* the mask before the library acted; see struct gf_startup_env and GPUFEED_BOUND */
    /*
     * The CPUs that the process could use with the widest mask. They come from the cpuset cgroup,
     * because Cpus_allowed shows the mask. If no cgroup file gives them, they come from
     * gf_allowed_cpus; if that fails, they are all online CPUs. Excludes isolated CPUs that the
     * start mask lacks.
     */
    struct gf_cpus cpuset;
    struct gf_nodes mems;               /* Mems_allowed */
    struct gf_cpus isolated;            /* CPUs that isolcpus= keeps out of the start mask */
    int start_policy;                   /* get_mempolicy's mode, or -errno */
    struct gf_nodes start_policy_nodes; /* nodes of that policy; empty if it has none */
    /*
     * The CPUs of the program's threads that have their own mask, at the time of a decision
     * (gf_thread_binding_read_own); empty if no thread has one. all_own: no thread has the start
     * mask.
     */
    struct gf_cpus own;
    bool all_own;
    double cpu_quota;           /* the CPU quota in CPUs; 0 if unlimited */
    bool single_cpu_pinning;    /* OMP_PROC_BIND, GOMP_CPU_AFFINITY, KMP_AFFINITY, I_MPI_PIN, ... */
    const char *pinning_source; /* the variable's name; NULL if none is set */
    /* the variable or flag that turns on a framework's binder, or NULL */
    const char *binder_source;
    struct gf_rank rank;
    unsigned threads; /* number of threads of this process */
    bool numa_balancing;
};

/*
 * Reads /proc and /sys below root (os/procfs.h) and envp. start is the recorded mask. A fact that
 * cannot be read keeps its "unknown" value. *ret points into envp.
 */
void gf_facts_gather(const char *root, char *const *envp, const struct gf_cpus *start,
                     struct gf_facts *ret);

#endif
