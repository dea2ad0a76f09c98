/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With GPUFEED_DEBUG=copy, writes one line for the 1st, 2nd, 4th, 8th, ... copy of each direction,
 * kind and outcome, so that a training loop does not flood standard error. All functions may be
 * called on any thread. They keep errno and take no lock.
 */
#ifndef GF_ENGINE_TRANSFER_COPY_COPY_EXPLAIN_H
#define GF_ENGINE_TRANSFER_COPY_COPY_EXPLAIN_H

#include "engine/transfer/stats.h"

/*
 * Called once, at the start. `off`: the reason why no copy is staged, or NULL. `least`: the
 * smallest size that is staged with four or more copying threads, in bytes.
 */
void gf_copy_explain_start(const char *off, const size_t least[gf_direction_count]);

/*
 * Called when the number of copying threads of a GPU has become known, or has changed.
 * `least`: the smallest size that they stage, in bytes; SIZE_MAX: they stage no copy.
 */
void gf_copy_explain_threads(unsigned threads, const size_t least[gf_direction_count]);

void gf_copy_explain_staged(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns);
void gf_copy_explain_bypassed(struct gf_copy_kind kind, enum gf_bypass reason, uint64_t bytes);

#endif
