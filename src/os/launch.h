/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the placement settings of launchers, OpenMP runtimes and frameworks from the environment
 * and the arguments of the process. The functions allocate nothing, and may be called on any
 * thread. envp ends with NULL. Results point into envp or to constants.
 */
#pragma once

#include "base/base.h"

/*
 * The rank numbers that a launcher set. If several sets of variables are present, the first
 * complete set is used.
 */
struct gf_rank {
    int local_rank;     /* -1 unknown */
    int local_size;     /* -1 unknown */
    int rank;           /* rank among the ranks of all hosts; -1 unknown */
    int size;           /* number of ranks; -1 unknown */
    const char *source; /* "torchrun", "Slurm", "Open MPI", "MPICH", or NULL */
};

/* Returns the value of a variable in envp; NULL if absent. */
const char *gf_launch_variable(char *const *envp, const char *name);

void gf_launch_rank(char *const *envp, struct gf_rank *ret);
/*
 * Names the process among several ranks, for its messages: "rank 3". Writes "" if there is no
 * launcher, or only one rank.
 */
void gf_launch_name(const struct gf_rank *rank, char *buf, size_t size);
/* Variables of OpenMP runtimes and tcmalloc, which read them when the program starts. */
#define GF_LAUNCH_OMP_THREADS "OMP_NUM_THREADS"
#define GF_LAUNCH_TCMALLOC_CACHES "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES"
/* The names of the variables that identify a job of a scheduler or launcher. NULL ends the list. */
#define GF_LAUNCH_JOB_VARIABLES 9
typedef char gf_launch_value[256];
extern const char *const gf_launch_job_variables[GF_LAUNCH_JOB_VARIABLES + 1];
/*
 * Returns the identifier of the job: the value of the first of these variables that is set. NULL if
 * none is set. torchrun's default "none" counts as not set.
 */
const char *gf_launch_job(char *const *envp);

/*
 * Returns the name of the variable with which an OpenMP or MPI runtime pins each thread to few
 * CPUs; NULL if no such variable is set.
 */
const char *gf_launch_pinning(char *const *envp);
/*
 * Returns the name of the variable or argument with which a framework binds its own workers; NULL
 * if not found. root: see os/procfs.h.
 */
const char *gf_launch_binder(const char *root, char *const *envp);
