/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times calls of the program's own allocator for blocks of at least 1 MiB. Such calls are few and
 * may be slow. A call of free is timed if the block is in a table of large blocks. It is not known
 * which part of a call's time was spent on waits for locks, system calls and so on. Calls for
 * smaller blocks are not timed, because reading the clock takes several times as long as the call.
 */
#ifndef GF_PRELOAD_HEAP_TIMED_PASSTHROUGH_H
#define GF_PRELOAD_HEAP_TIMED_PASSTHROUGH_H

/*
 * Copies the pointers to the allocator's functions, which the timed functions call. Called once,
 * after gf_passthrough_resolve and before the mode is published, so that every thread sees the
 * copies.
 */
void gf_timed_passthrough_prepare(void);

/* Starts timing. This is gf_heap_ops.time_passthrough. Idempotent. May be called on any thread. */
void gf_timed_passthrough_start(void);

#endif
