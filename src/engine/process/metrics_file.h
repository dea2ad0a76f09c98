/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUFEED_METRICS: the file with the process's metrics, which exists while the process runs. The
 * caller holds the report lock.
 */
#ifndef GF_ENGINE_PROCESS_METRICS_FILE_H
#define GF_ENGINE_PROCESS_METRICS_FILE_H

#include "engine/report/report_data.h"

/* Whether the option names a file. */
bool gf_metrics_file_wanted(const struct gf_report *report);

/* Replaces the file as a whole. Prints a warning at the first failure. */
void gf_metrics_file_write(const struct gf_report *report);

/* Removes the file, if it was written. Called at a normal exit. */
void gf_metrics_file_remove(const struct gf_report *report);

/*
 * Warns if node_exporter would ignore the path, because it does not end in .prom. Called at the
 * start.
 */
void gf_metrics_file_check(const struct gf_report *report);

#endif
