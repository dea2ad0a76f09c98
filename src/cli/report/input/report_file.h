/* SPDX-License-Identifier: Apache-2.0 */
/* JSON reports of processes (docs/report.md), and the numbers in them. */
#ifndef GF_CLI_REPORT_INPUT_REPORT_FILE_H
#define GF_CLI_REPORT_INPUT_REPORT_FILE_H

#include "cli/report/input/job.h"
#include "cli/report/input/scan.h"

/*
 * Adds the reports in a text: one, or several in sequence, as a pipe may hold. Returns their
 * number; 0 if the text is not a report, or is damaged.
 */
unsigned gf_report_file_add(json_t *reports, struct gf_span text);

/*
 * Assigns each report to its process, after all logs were read. The report and the process have the
 * same id, program and rank, and the report was written while the process ran. For a report without
 * such a process, adds one.
 */
void gf_report_file_join(struct gf_job *job, json_t *reports);

/* The value at a path such as "transfers.ring.bytes"; NULL if absent. */
const json_t *gf_report_at(const json_t *report, const char *path);
double gf_report_number(const json_t *report, const char *path);
/* A text for a terminal, copied into buf; "" without one. */
const char *gf_report_text(const json_t *report, const char *path, char *buf, size_t size);

/* A name of a report for a terminal, copied into buf. */
const char *gf_report_plain(const char *name, char *buf, size_t size);

#endif
