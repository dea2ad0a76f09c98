/* SPDX-License-Identifier: Apache-2.0 */
/* Stalls over time for a page: few enough to draw, however many there are. */
#ifndef GF_CLI_REPORT_FILES_TIMELINE_H
#define GF_CLI_REPORT_FILES_TIMELINE_H

#include "cli/report/output/answer.h"

#define GF_TIMELINE_BINS 300
#define GF_TIMELINE_EVENTS 1000
#define GF_TIMELINE_LANES 128

/*
 * Adds to `page`: lanes (the threads with the most stalled time: name, and the stalled microseconds
 * of intervals), hidden (threads without a lane), events (the longest stalls: lane or -1, seconds
 * since the job's start, us, cause, call site, call, step), causes, texts, and lengths (rows of least
 * us, count, us). False if memory is short.
 */
bool gf_timeline_add(json_t *page, const struct gf_answer *answer);

#endif
