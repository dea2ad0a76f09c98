/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of the program's copies and pinned memory: sums over what src/transfer and the hooks
 * counted, as a part of the report and as a line of the summary. Nothing here reads the system.
 */
#ifndef GF_OBSERVE_REPORT_TRANSFERS_H
#define GF_OBSERVE_REPORT_TRANSFERS_H

#include "observe/json.h"
#include "observe/report_pinned.h"
#include "observe/tally.h"
#include "transfer/stats.h"

struct gf_transfer_report {
    bool known;     /* there is something that looks at copies */
    uint64_t least; /* that looks at copies of this size and more; SIZE_MAX: at none */
    struct gf_transfer_stats copies;
    struct gf_transfer_state state;
    struct gf_pinned_report pinned;
};

/* Sums, synchronous and asynchronous together: what was staged; what was left for one reason;... */
void gf_transfer_report_staged(const struct gf_transfer_stats *copies,
                               enum gf_direction direction, struct gf_tally_copy *ret);
void gf_transfer_report_why(const struct gf_transfer_stats *copies, enum gf_direction direction,
                            enum gf_forward why, struct gf_tally_copy *ret);
/* ...what the driver did with memory that it did not know; */
void gf_transfer_report_driver(const struct gf_transfer_stats *copies,
                               enum gf_direction direction, struct gf_tally_copy *ret);
/* such memory, whoever copied, both directions. */
void gf_transfer_report_pageable(const struct gf_transfer_stats *copies, bool async,
                                 struct gf_tally_copy *ret);

/*
 * The most that the program would save with memory pinned where it is made: asynchronous calls
 * would not hold it up; synchronous ones would take as long as those from pinned memory did.
 * *ret_rate is how fast these were, in bytes a second: 0 where there was none, and then synchronous
 * calls count for nothing.
 */
uint64_t gf_transfer_report_saving_ns(const struct gf_transfer_stats *copies, uint64_t *ret_rate);

/* The value of "transfers". each_hook may be NULL. */
void gf_transfer_report_put(struct gf_json *json, const struct gf_transfer_report *transfers,
                            gf_tally_each *each_hook);

/* A line for the summary; "" where there was next to nothing to do. each_hook may be NULL. */
void gf_transfer_report_say(const struct gf_transfer_report *transfers, gf_tally_each *each_hook,
                            char *buf, size_t size);

#endif
