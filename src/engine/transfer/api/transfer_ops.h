/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that the engine publishes to the hooks for copies, pinned memory and contexts, and
 * their state for the report.
 */
#ifndef GF_ENGINE_TRANSFER_API_TRANSFER_OPS_H
#define GF_ENGINE_TRANSFER_API_TRANSFER_OPS_H

#include "abi/transfer_api.h"
#include "engine/transfer/setup/setup.h"
#include "engine/transfer/stats/copy_stats.h"

/*
 * Called once, before any other call into src/engine/transfer. Returns NULL if the options turn off
 * copies and pinned memory.
 */
const struct gf_transfer_ops *gf_transfer_start(const struct gf_transfer_setup *setup);

/*
 * Does the work that copies leave to the library's own thread. That thread calls it after
 * setup.request_prepare.
 */
void gf_transfer_prepare(void);

/* Keeps all helpers within the CPUs that the program may use now. Called on one thread. */
void gf_transfer_follow(const struct gf_cpus *program);

/*
 * Called when the host or the control group runs short of memory. The next calls of the program
 * that wait for a context release the context's unused staging and pinned memory. Any thread; makes
 * no CUDA call.
 */
void gf_transfer_memory_is_short(void);

/* Reads the state for the report. Any thread; makes no CUDA call. */
void gf_transfer_state(struct gf_transfer_state *ret);

#endif
