/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many stalls had each cause, and how long they took. No function here allocates. The functions
 * may be called on any thread.
 */
#ifndef GF_PRELOAD_TRACE_STALL_COUNT_H
#define GF_PRELOAD_TRACE_STALL_COUNT_H

#include "abi/trace_api.h"

/* Children that are forked from now on add to this process's counts. */
void gf_stall_count_share(void);

void gf_stall_count_add(enum gf_cause cause, uint64_t us);
/*
 * Moves a stall of `us` microseconds from the counts of the cause `from` to those of the cause
 * `to`.
 */
void gf_stall_count_move(enum gf_cause from, enum gf_cause to, uint64_t us);

/* Returns the stalls until now by cause, of this process and of children that share the counts. */
void gf_stall_counts(struct gf_stall_count ret[GF_CAUSE_COUNT]);

#endif
