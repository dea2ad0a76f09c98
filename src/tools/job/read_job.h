/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/job/job.h"
#include "tools/job/sources.h"

/* A log may begin with this many damaged lines, because its beginning may have been cut off. */
#define GF_FOREIGN_LINES 3

/* How much input of each kind was read. */
struct gf_read_counts {
    size_t logs, reports, empty; /* sources */
    size_t doctors;              /* files that `gpufeed doctor --json` wrote */
    size_t foreign;              /* other files in the folders that operands name */
    size_t repeated;             /* files that were given more than once, and read once */
    uint64_t lines, damaged, bytes;
    char first_damaged[512]; /* "PATH:LINE"; "" if no line is damaged */
};

/*
 * Reads all sources. Returns false if a source cannot be read, or if a file that an operand names
 * is neither a log nor a report; each such source is named on standard error. Shows the progress on
 * a terminal.
 */
bool gf_read_job(const struct gf_sources *sources, struct gf_job *job, struct gf_read_counts *ret);

/* Whether the file exists, and is a log, a report or the doctor's findings. */
bool gf_read_job_takes(const char *path);
