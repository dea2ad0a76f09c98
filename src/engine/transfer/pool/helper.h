/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the helper threads of a pool. Called on the library's own thread (pool.h explains why). */
#ifndef GF_ENGINE_TRANSFER_POOL_HELPER_H
#define GF_ENGINE_TRANSFER_POOL_HELPER_H

#include "base/base.h"

/*
 * Starts up to `count` detached threads that run run(arg) with every signal blocked, and does not
 * wait for them. Returns 0, or an errno if the first thread could not be started. If only later
 * threads could not be started, that is not an error. The threads never end, so their stacks are
 * never unmapped.
 */
int gf_helpers_start(unsigned count, void *(*run)(void *), void *arg);

/*
 * The same, but lets gf_server_reads (os/own_table.h) create the threads, so that they share its
 * descriptor table. Before the threads run, sets *ret_apart to true. If this thread does not serve,
 * the calling thread creates them, and *ret_apart stays as it is.
 */
int gf_helpers_start_apart(unsigned count, void *(*run)(void *), void *arg, bool *ret_apart);

#endif
