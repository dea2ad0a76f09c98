/* SPDX-License-Identifier: Apache-2.0 */
/* What this process may do and what others have already decided for it. */
#ifndef GF_HOST_FACTS_H
#define GF_HOST_FACTS_H

#include "base/cpus.h"

#include <errno.h>
#include <pthread.h>
#include <sys/types.h>

#define GF_UNTRIED ECANCELED /* no call here answers so; a seccomp filter may answer ENOSYS */

/* Each is 0 when it worked on a scratch thread, or the errno; GF_UNTRIED. */
struct gf_probe {
    int set_affinity;
    int get_mempolicy;
    int set_mempolicy; /* MPOL_PREFERRED of the wanted node, then restored */
    int mbind;         /* on one page of its own */
};

/* A launcher's numbering of the ranks on this host, from the first of its variables that is whole. */
struct gf_rank {
    int local_rank; /* -1 unknown */
    int local_size; /* -1 unknown */
    int rank;       /* global; -1 unknown */
    const char *source; /* "torchrun", "Slurm", "Open MPI", "MPICH", or NULL */
};

struct gf_facts {
    struct gf_cpus start;        /* the mask before anything; see struct gf_birth and GPUFEED_BOUND */
    /*
     * What the process could use if nobody had narrowed its mask: what the cpuset cgroup allows
     * (Cpus_allowed cannot tell), less isolated CPUs that the start mask lacks. Where no cgroup
     * file says it, it is what the kernel leaves of a mask of all CPUs (gf_tasks_allowed); else all
     * online CPUs.
     */
    struct gf_cpus cpuset;
    struct gf_nodes mems;        /* Mems_allowed */
    int start_policy;            /* get_mempolicy's mode; -errno when refused */
    double cpu_quota;            /* CPUs' worth that cpu.max grants; 0 when unlimited */
    bool single_cpu_pinning;     /* OMP_PROC_BIND, GOMP_CPU_AFFINITY, KMP_AFFINITY, LIKWID, I_MPI_PIN... */
    const char *pinning_source;  /* the variable's name; NULL */
    const char *binder_source;   /* a framework's own binder is on (torchrun --numa-binding...); NULL */
    struct gf_rank rank;
    unsigned threads;            /* of the program, now */
    bool numa_balancing;
};

/*
 * Reads /proc and /sys below root ("" for the real ones) and envp. start is the recorded mask.
 * Never fails: what cannot be read is left at its unknown value.
 */
void gf_facts_gather(const char *root, char *const *envp, const struct gf_cpus *start,
                     struct gf_facts *ret);

/*
 * Runs the probe on a scratch thread made by create (pthread_create's own signature reduced) and
 * waits for it: never from a hook. node is one with memory.
 */
void gf_probe_run(int (*create)(pthread_t *ret, void *(*run)(void *), void *arg), unsigned node,
                  const struct gf_cpus *cpus, struct gf_probe *ret);

/* A one-line remedy for a refused step ("--cap-add SYS_NICE"), NULL when there is none. */
const char *gf_probe_remedy(int error);

#endif
