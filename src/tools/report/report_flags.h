/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/job/job.h"
#include "tools/job/sources.h"
#include "tools/job/tally.h"

enum gf_report_form { GF_FORM_ANSWER, GF_FORM_JSON, GF_FORM_EVENTS, GF_FORM_FOLDED };

/* The files that flags name: those to write, then PyTorch's trace, which the Perfetto trace contains. */
enum { GF_FILE_HTML, GF_FILE_PERFETTO, GF_FILE_PROMETHEUS, GF_FILE_WITH, GF_FILES };
#define GF_FILES_WRITTEN GF_FILE_WITH

/* The command line of `gpufeed report`. The strings point into argv. */
struct gf_report_flags {
    enum gf_report_form form;
    bool idle;     /* the folded stacks are those of time without work */
    enum gf_by by; /* GF_BY_COUNT if not given */
    unsigned top;
    const char *files[GF_FILES]; /* NULL if not given */
    struct gf_job_filter filter;
    bool reads_stdin;
    struct gf_sources sources;
};

/* Whether the answer is written to files instead of being printed. */
static inline bool gf_report_flags_write(const struct gf_report_flags *flags)
{
    return flags->files[GF_FILE_HTML] || flags->files[GF_FILE_PERFETTO] ||
           flags->files[GF_FILE_PROMETHEUS];
}

/*
 * Reads argv. Returns GF_EXIT_OK, or another exit code after printing an error. *ret_done is true
 * if the command ends here, because an error or the help was printed. The caller frees the sources.
 */
int gf_report_flags_read(int argc, char **argv, struct gf_report_flags *ret, bool *ret_done);
