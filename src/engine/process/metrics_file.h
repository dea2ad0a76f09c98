/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and removes the file of GPUFEED_METRICS, which contains the process's metrics and exists
 * while the process runs. The caller holds the report lock.
 */
#ifndef GF_ENGINE_PROCESS_METRICS_FILE_H
#define GF_ENGINE_PROCESS_METRICS_FILE_H

#include "engine/report/report_data.h"

/* Whether GPUFEED_METRICS names a file. */
bool gf_metrics_file_wanted(const struct gf_report *report);

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

#endif
