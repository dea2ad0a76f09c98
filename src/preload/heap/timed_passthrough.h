/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times the calls of the program's own allocator that may be slow: those for blocks of at least 1
 * MiB, which are few. A free is timed if its block is in a table of large blocks. The durations of
 * a call's parts are unknown. Smaller calls are not timed, because a clock around each costs
 * several times the call (docs/heap.md).
 */
#ifndef GF_PRELOAD_HEAP_TIMED_PASSTHROUGH_H
#define GF_PRELOAD_HEAP_TIMED_PASSTHROUGH_H

/*
 * Called once, after gf_passthrough_resolve and before the mode is published. So a thread that
 * later loads a timed function also sees the function that it calls, whatever the order in which
 * the CPU performs the two loads.
 */
void gf_timed_passthrough_prepare(void);

/* gf_heap_ops.time_passthrough: times calls from now on. Idempotent; any thread. */
void gf_timed_passthrough_start(void);

#endif
