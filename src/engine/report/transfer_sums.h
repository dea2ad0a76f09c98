/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and pinned memory of the process, as engine/transfer and the hooks counted them, and sums
 * over these counts. Pure; any thread.
 */
#ifndef GF_ENGINE_REPORT_TRANSFER_SUMS_H
#define GF_ENGINE_REPORT_TRANSFER_SUMS_H

#include "abi/hook_counts.h"
#include "engine/transfer/stats/copy_stats.h"
#include "engine/transfer/stats/pinned_stats.h"

struct gf_report_transfers {
    bool known;         /* whether copies are examined, or pinned memory is served */
    uint64_t min_bytes; /* copies of this size and more are examined; SIZE_MAX if none */
    struct gf_copy_stats copies;
    struct gf_transfer_state state;
    struct gf_pinned_stats pinned;
};

/* Whether this reason for bypassing staging applies only to pageable memory. */
bool gf_transfer_sums_is_pageable(enum gf_bypass why);

/*
 * Sums over synchronous and asynchronous calls: of all staged copies, and of all copies with one
 * reason.
 */
void gf_transfer_sums_staged(const struct gf_copy_stats *copies, enum gf_direction direction,
                             struct gf_copy_counts *ret);
void gf_transfer_sums_bypassed(const struct gf_copy_stats *copies, enum gf_direction direction,
                               enum gf_bypass why, struct gf_copy_counts *ret);

/* Pageable memory that the driver copied. */
void gf_transfer_sums_driver(const struct gf_copy_stats *copies, enum gf_direction direction,
                             struct gf_copy_counts *ret);

/* The rate in thousandths of 10^9 bytes per second; timed_ns must not be 0. */
uint64_t gf_transfer_sums_rate(const struct gf_copy_counts *counts);

/*
 * The most that the program would save by pinning its pageable memory. Asynchronous calls count
 * with their whole duration. Synchronous calls count with their duration beyond that of pinned
 * copies of as many bytes. *ret_rate is the rate of pinned copies in bytes per second; if it is
 * unknown (0), synchronous calls do not count.
 */
uint64_t gf_transfer_sums_saving_ns(const struct gf_copy_stats *copies, uint64_t *ret_rate);

/*
 * Copies that are not examined: those below min_bytes, and those of a shape that is never staged.
 */
struct gf_small_copies {
    uint64_t small, small_bytes, unsupported, unsupported_bytes;
};

/* Adds a hook's counts. False if the hook made no copy. */
bool gf_transfer_sums_add_hook(struct gf_small_copies *sums, const struct gf_hook_counts *counts);

#endif
