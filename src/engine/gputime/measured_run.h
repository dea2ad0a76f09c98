/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs work of the sampler on a short-lived thread (os/own_table.h), and sums the CPU time of this
 * work. The sampler limits its own cost, but its thread's CPU clock does not include other threads.
 */
#ifndef GF_ENGINE_GPUTIME_MEASURED_RUN_H
#define GF_ENGINE_GPUTIME_MEASURED_RUN_H

#include "base/base.h"

/*
 * Like gf_own_table_run. *ret_ns is the CPU time of the work. Called on the sampler's thread only.
 */
bool gf_measured_run(void (*work)(void *closure), void *closure, uint64_t *ret_ns);

/* The CPU time of all such work, in ns. Any thread. */
uint64_t gf_measured_run_total(void);

#endif
