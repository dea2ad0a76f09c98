/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readings for GPU time that run on a short thread (os/own_table.h). Their CPU time is summed,
 * because the sampler limits the cost of GPU time, and its own CPU clock does not include them.
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
