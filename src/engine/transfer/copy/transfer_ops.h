/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that the engine offers to the hooks for copies, pinned memory and contexts. Also
 * the state of copies and pinned memory for the report.
 */
#pragma once

#include "abi/transfer_api.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/stats.h"

/*
 * Called once, before any other call into src/engine/transfer. Returns NULL if the options turn off
 * copies and pinned memory.
 */
const struct gf_transfer_ops *gf_transfer_start(const struct gf_transfer_setup *setup);

/*
 * Called on the program's thread that called cuInit, after gf_transfer_start. Registers handlers of
 * forks. Within an allocation, the program might hold a lock that its own handlers take, and some
 * versions of glibc hold a lock during handlers that a registration needs. allocated: the program
 * allocated pinned memory before the engine was loaded.
 */
void gf_transfer_joined(bool allocated);

/*
 * Does the work that copies leave to the library's own thread (prepare.h). That thread calls
 * this function after setup.request_prepare was called.
 */
void gf_transfer_prepare(void);

/*
 * Called when the host or the control group runs short of memory. The next call of the program that
 * waits for a context's work also releases the context's unused staging memory and its keepalive.
 * May be called on any thread; makes no CUDA call.
 */
void gf_transfer_memory_is_short(void);

/* Reads the state for the report. May be called on any thread; makes no CUDA call. */
void gf_transfer_state(struct gf_transfer_state *ret);
