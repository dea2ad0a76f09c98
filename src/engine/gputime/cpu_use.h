/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells whether this process or others had the CPUs while a GPU had nothing to do because the
 * submitting thread had no CPU (cause `preempted`). Only the sampler's thread adds; any thread may read.
 */
#ifndef GF_ENGINE_GPUTIME_CPU_USE_H
#define GF_ENGINE_GPUTIME_CPU_USE_H

#include "base/base.h"

struct gf_cpu_use {
    uint64_t ns;     /* time in which a GPU was idle with this cause for the most part */
    uint64_t own_ns; /* CPU time of this process's threads in that time */
    unsigned cpus;   /* number of CPUs that the process's main thread may use */
};

/*
 * Called regularly. Both times are sums since the start: cpu_ns of the CPU time of the process, and
 * preempted_ns of a GPU's idle time with that cause.
 */
void gf_cpu_use_add(uint64_t now, uint64_t cpu_ns, uint64_t preempted_ns);
void gf_cpu_use_read(struct gf_cpu_use *ret);

/* Returns how many CPUs the process's main thread may use. */
unsigned gf_cpu_use_cpus(void);

#endif
