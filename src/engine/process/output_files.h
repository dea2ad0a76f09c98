/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/report/report_data.h"

/*
 * Writes the file of GPUFEED_REPORT, and decides when to write it again. The caller holds the
 * report lock, except in gf_report_file_is_due.
 */

/*
 * Replace the file. Print a warning if this fails, but no warning for further failures until a
 * write succeeds. gf_report_file_write does not wait for the file system. It writes on another
 * thread, and does nothing while that thread still writes. gf_report_file_write_last is called at
 * exit, and writes on the calling thread.
 */
void gf_report_file_write(const struct gf_report *report);
void gf_report_file_write_last(const struct gf_report *report);

/*
 * Whether the file is old enough to be replaced between samples: 5 s, or 60 s on a network file
 * system. If the path is a device or a pipe, returns false, because reports are appended to it.
 * Called on the library's thread.
 */
bool gf_report_file_is_due(uint64_t now);

/* Whether hooked calls were made, or samples of GPU time were taken, since the file was written. */
bool gf_report_file_is_news(const struct gf_report *report);

/*
 * Writes and removes the file of GPUFEED_METRICS, which contains the process's metrics and exists
 * while the process runs. The caller holds the report lock.
 */

/*
 * Replaces the file as a whole, on another thread. Prints a warning at the first failure. Does
 * nothing while the other thread still writes.
 */
void gf_metrics_file_write(const struct gf_report *report);

/* Removes the file, if it was written. Called at a normal exit. */
void gf_metrics_file_remove(const struct gf_report *report);

/*
 * Warns if the path does not end in .prom, because node_exporter would ignore the file. Called at
 * the start.
 */
void gf_metrics_file_check(const struct gf_report *report);
