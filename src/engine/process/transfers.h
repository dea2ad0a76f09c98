/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and pinned memory in this process: connects engine/transfer to the state, log and report.
 */
#ifndef GF_ENGINE_PROCESS_TRANSFERS_H
#define GF_ENGINE_PROCESS_TRANSFERS_H

#include "abi/transfer_api.h"
#include "engine/report/transfer_sums.h"

/*
 * Starts engine/transfer. NULL if copies and pinned memory are both off. Called once, by
 * gf_engine_start.
 */
const struct gf_transfer_ops *gf_transfers_start(void);

/*
 * Does the preparation that copies requested. Called on the library's thread; a request wakes it.
 */
void gf_transfers_prepare(void);

/* Prints the counts of copies so far, at GPUFEED_VERBOSE=2. */
void gf_transfers_print(void);

/*
 * Keeps helpers, and the library's thread, on CPUs that the program still uses. Called on the
 * library's thread.
 */
void gf_transfers_follow(void);

/* Gets the counts for the report. Any thread; makes no CUDA call. */
void gf_transfers_read(struct gf_report_transfers *ret);

#endif
