/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects engine/transfer, which serves copies and pinned memory, to the engine's state, log and
 * report.
 */
#pragma once

#include "abi/transfer_api.h"
#include "engine/report/transfer_sums.h"

/*
 * Starts engine/transfer. Returns NULL if copies and pinned memory are both off. Called once, by
 * gf_engine_start.
 */
const struct gf_transfer_ops *gf_transfers_start(void);

/*
 * Makes the preparations that copies have requested. Called on the library's thread, which a
 * request wakes.
 */
void gf_transfers_prepare(void);

/* At GPUFEED_VERBOSE=2, prints the counts of copies so far. */
void gf_transfers_print(void);

/*
 * Moves helpers and the library's thread if the program's threads have moved to other CPUs. Called
 * on the library's thread.
 */
void gf_transfers_follow(void);

/* Reads the counts for the report. May be called on any thread. Makes no CUDA call. */
void gf_transfers_read(struct gf_report_transfers *ret);
