/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_INPUT_PROGRESS_H
#define GF_CLI_REPORT_INPUT_PROGRESS_H

#include "base/base.h"

/* A progress line on standard error. It is shown only on a terminal. */
struct gf_progress {
    bool on, shown;
    uint64_t due_ns;
    size_t total; /* sources */
};

void gf_progress_begin(struct gf_progress *progress, size_t total);
/* Updates the line at most five times per second. Shows nothing in the first half second. */
void gf_progress_show(struct gf_progress *progress, size_t done, uint64_t bytes);
/* Removes the line. */
void gf_progress_end(struct gf_progress *progress);

#endif
