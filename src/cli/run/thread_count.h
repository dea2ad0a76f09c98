/* SPDX-License-Identifier: Apache-2.0 */
/* GPUFEED_OMP=auto: sets the number of OpenMP threads of the program to run. */
#ifndef GF_CLI_RUN_THREAD_COUNT_H
#define GF_CLI_RUN_THREAD_COUNT_H

#include "base/cpus.h"
#include "cli/run/environ.h"

/*
 * Sets OMP_NUM_THREADS in env, unless it is already set, to this process's share of the CPUs in
 * `start`, the mask before the binding. Ranks that share this mask get equal parts. If no launcher
 * gives the number of ranks, the variable is set only if one_gpu is true, because a program with
 * several GPUs may start ranks itself. Returns the number that was set, or 0 if none was set. The
 * process must have one thread.
 */
unsigned gf_thread_count_apply(struct gf_env *env, const struct gf_cpus *start, bool one_gpu);

#endif
