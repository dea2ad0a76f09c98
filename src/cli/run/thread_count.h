/* SPDX-License-Identifier: Apache-2.0 */
/* GPUFEED_OMP=auto: the number of OpenMP threads of the program to run. */
#ifndef GF_CLI_RUN_THREAD_COUNT_H
#define GF_CLI_RUN_THREAD_COUNT_H

#include "base/cpus.h"
#include "cli/run/environ.h"

/*
 * Sets OMP_NUM_THREADS in env, unless it is set, to this process's share of the CPUs. start is the
 * mask before the process was bound. If the program is one of several ranks that share that mask,
 * each gets an equal part. Without a launcher's count of ranks, one_gpu must be true: the program
 * itself feeds one GPU, so it is not a launcher that starts ranks. Returns the number, 0 if the
 * variable is left alone. The process must have one thread.
 */
unsigned gf_thread_count_apply(struct gf_env *env, const struct gf_cpus *start, bool one_gpu);

#endif
