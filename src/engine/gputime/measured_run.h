/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readings for GPU time that run on a short thread (os/own_table.h). Their CPU time is added up,
 * because the sampler must keep the cost of GPU time low, and its own clock does not include them.
 */
#ifndef GF_ENGINE_GPUTIME_MEASURED_RUN_H
#define GF_ENGINE_GPUTIME_MEASURED_RUN_H

#include "base/base.h"

/* As gf_own_table_run. *ret_ns: the CPU time of the work. The sampler's thread only. */
bool gf_measured_run(void (*work)(void *closure), void *closure, uint64_t *ret_ns);

/* The CPU time of all such work, in ns. Any thread. */
uint64_t gf_measured_run_total(void);

#endif
