/* SPDX-License-Identifier: Apache-2.0 */
/* Reads all sources into a job. */
#ifndef GF_CLI_REPORT_INPUT_READ_JOB_H
#define GF_CLI_REPORT_INPUT_READ_JOB_H

#include "cli/report/input/job.h"
#include "cli/report/input/sources.h"

/* The first lines need not be events, because a log may have been cut there. */
#define GF_FOREIGN_LINES 3

/* What was read, beside the job. */
struct gf_read_counts {
    size_t logs, reports, empty,
        foreign; /* sources; foreign: members of folders that are neither */
    uint64_t lines, damaged, bytes;
    char first_damaged[512]; /* "PATH:LINE"; "" if no line is damaged */
};

/*
 * Reads every source. A named source that cannot be read, or is neither a log nor a report, is
 * reported on standard error; the others are read nevertheless. False if there was such a source.
 * If standard error is a terminal, it shows the progress.
 */
bool gf_read_job(const struct gf_sources *sources, struct gf_job *job, struct gf_read_counts *ret);

#endif
