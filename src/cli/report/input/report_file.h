/* SPDX-License-Identifier: Apache-2.0 */
/* JSON reports of processes (docs/report.md), and the numbers in them. */
#ifndef GF_CLI_REPORT_INPUT_REPORT_FILE_H
#define GF_CLI_REPORT_INPUT_REPORT_FILE_H

#include "cli/report/input/job.h"
#include "cli/report/input/scan.h"

/*
 * Adds the reports in a text: a file has one, a pipe may have several in sequence. Returns their
 * number; 0 if the text is not a report, or is damaged.
 */
unsigned gf_report_file_add(json_t *reports, struct gf_span text);

/* Adds the output of `gpufeed doctor --json` that a file holds. False if it is something else. */
bool gf_report_file_add_doctor(struct gf_job *job, struct gf_span text, const char *file);

/*
 * Assigns each report to its process, after all logs were read. Both have the same pid, program and
 * rank, and their times overlap. If there is no such process, one is added.
 */
void gf_report_file_join(struct gf_job *job, json_t *reports);

/* The value at a path such as "transfers.ring.bytes"; NULL if absent. */
const json_t *gf_report_at(const json_t *report, const char *path);
double gf_report_number(const json_t *report, const char *path);
/* Copies the text at a path into buf, made safe for a terminal; "" if absent. */
const char *gf_report_text(const json_t *report, const char *path, char *buf, size_t size);

/* Copies a name from a report into buf, made safe for a terminal. */
const char *gf_report_plain(const char *name, char *buf, size_t size);

#endif
