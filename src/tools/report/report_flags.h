/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/job/job.h"
#include "tools/job/sources.h"
#include "tools/job/tally.h"

enum gf_report_form { GF_FORM_ANSWER, GF_FORM_JSON, GF_FORM_EVENTS, GF_FORM_FOLDED };

/* The command line of `gpufeed report`. The strings point into argv. */
struct gf_report_flags {
    enum gf_report_form form;
    enum gf_by by; /* GF_BY_COUNT if not given */
    unsigned top;
    const char *html, *perfetto, *prometheus; /* files to write; NULL if not given */
    const char *with;                         /* PyTorch's trace, merged into the Perfetto trace */
    struct gf_job_filter filter;
    bool reads_stdin;
    struct gf_sources sources;
};

/* Whether the answer is written to files instead of being printed. */
static inline bool gf_report_flags_write(const struct gf_report_flags *flags)
{
    return flags->html || flags->perfetto || flags->prometheus;
}

#define GF_REPORT_TARGETS 3

/* A file to write, and the flag that names it. */
struct gf_report_target {
    const char *flag, *path; /* path: NULL if the flag is not given */
};

static inline struct gf_report_target gf_report_target(const struct gf_report_flags *flags,
                                                       size_t index)
{
    const struct gf_report_target targets[GF_REPORT_TARGETS] = {
        {"html", flags->html}, {"perfetto", flags->perfetto}, {"prometheus", flags->prometheus}};
    return targets[index];
}

/*
 * Reads argv. Returns GF_EXIT_OK, or another exit code after printing an error. *ret_done is true
 * if the command ends here, because an error or the help was printed. The caller frees the sources.
 */
int gf_report_flags_read(int argc, char **argv, struct gf_report_flags *ret, bool *ret_done);
