/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs work of the sampler on another thread (os/own_table.h), and sums the CPU time and the
 * run-queue delay of such threads. The sampler limits its own cost, and tells a late sample of a
 * process without a CPU from one of a paused process. The clock and the delay of its own thread do
 * not include other threads.
 */
#ifndef GF_ENGINE_GPUTIME_MEASURED_RUN_H
#define GF_ENGINE_GPUTIME_MEASURED_RUN_H

#include "base/base.h"

/*
 * Like gf_own_table_run, but also sets *ret_ns to the CPU time of the work. Called on the sampler's
 * thread only.
 */
bool gf_measured_run(void (*work)(void *closure), void *closure, uint64_t *ret_ns);

/* Returns the CPU time of all calls of gf_measured_run, in ns. May be called on any thread. */
uint64_t gf_measured_run_total(void);
/*
 * Returns the run-queue delay of the threads of all calls of gf_measured_run, in ns. Delays below
 * 1 ms in a call are not counted. May be called on any thread.
 */
uint64_t gf_measured_run_delay(void);

#endif
