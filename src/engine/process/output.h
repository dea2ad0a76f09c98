/* SPDX-License-Identifier: Apache-2.0 */
/* Samples, report and live report. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads which masks threads have and on which nodes pages are, and adds this sample to the report.
 * The caller holds the report lock.
 */
void gf_output_sample(bool final);

/*
 * If a point of the report's growth is due, reads the program's memory and its steps. Only for the
 * summary (GPUFEED_VERBOSE=1). Returns when the next point is due, as gf_now_ns. Called on the
 * library's thread, which does not hold the report lock.
 */
uint64_t gf_output_growth(void);

/*
 * Updates the report and writes its file. ended: true at a normal exit. The caller holds the report
 * lock.
 */
void gf_output_report(bool ended);

/* Updates the report and writes the file of GPUFEED_METRICS. The caller holds the report lock. */
void gf_output_metrics(void);

/*
 * Called between two samples. If the program has used the GPU since the file of the report was last
 * written, writes it again: every 5 s, or every 60 s on a network file system. now: gf_now_ns().
 * Called on the library's thread, which does not hold the report lock.
 */
void gf_output_renew(uint64_t now);

/*
 * Implements gf_engine.report (abi/engine_api.h): writes the current report into buf, in the form
 * of the file. May be called on any thread that does not hold the report lock.
 */
size_t gf_output_snapshot(char *buf, size_t size, unsigned wait_ms);

/* Warns if files of the options would overwrite each other. Called at the start. */
void gf_output_check(void);

/*
 * Starts the thread "gpufeed-live", which updates the report in memory each second. Does nothing if
 * the option is off. Prints a warning if the thread cannot be started; `gpufeed top` then shows the
 * file of GPUFEED_REPORT. Called once, on the library's thread.
 */
void gf_live_start(void);
