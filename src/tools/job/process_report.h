/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/job/job.h"
#include "tools/job/job_input.h"

/*
 * The most bytes of a report, many times those of a real one. While it is parsed, a report takes up to
 * 90 times its size in memory.
 */
#define GF_REPORT_MOST (4 << 20)

/*
 * Adds the reports in a text to the list. A file contains one report; the output of a pipe may
 * contain several in sequence. Returns the number of reports; 0 if the text is not a report, or is
 * damaged.
 */
unsigned gf_report_file_add(json_t *reports, struct gf_span text);

/* Whether the text begins like a report or like the doctor's output, and may be cut off. */
bool gf_report_file_begins(struct gf_span text);

/*
 * Adds the output of `gpufeed doctor --json`, which was read from a file. Returns false if the text
 * is something else.
 */
bool gf_report_file_add_doctor(struct gf_job *job, struct gf_span text, const char *file);

/*
 * Called after all logs were read. Assigns each report to the process that has the report's pid,
 * program and rank, and whose log overlaps the report's time. If there is no such process, adds
 * one.
 */
void gf_report_file_join(struct gf_job *job, json_t *reports);

/* Returns the value at a path such as "transfers.ring.bytes"; NULL if there is none. */
const json_t *gf_report_at(const json_t *report, const char *path);
/* Returns the number at a path; 0 if it is absent, below 0 or impossible. */
double gf_report_number(const json_t *report, const char *path);
/* Returns the rank of the process; -1 if it has none. */
int64_t gf_report_rank(const json_t *report);
/*
 * Return the text at a path, "" if absent, or a name from a report, made safe for a terminal and cut to
 * less than `size` bytes, by gf_text.
 */
const char *gf_report_text(const json_t *report, const char *path, size_t size);
const char *gf_report_plain(const char *name, size_t size);

/* Copies the text at a path into a member. */
#define GF_REPORT_COPY(member, report, path)                                                       \
    snprintf(member, sizeof(member), "%s", gf_report_text(report, path, sizeof(member)))
