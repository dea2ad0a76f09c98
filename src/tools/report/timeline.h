/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events and the activity of a job over time, for a page. Their number is limited to what a
 * browser can draw.
 */
#pragma once

#include "tools/answer/answer.h"

#define GF_TIMELINE_BINS 300
#define GF_TIMELINE_EVENTS 1000 /* limit of stalls, of copies, and of steps */
#define GF_TIMELINE_SPANS 500   /* limit of the spans of a lane */

/*
 * Adds these members to `page`. Times are seconds since the job's start.
 * - lanes (timeline.c): name, kind, and whose they are. A thread's lane has bins: the stalled microseconds of intervals.
 *   A GPU's lane has spans: from, to, and the thousandths of each state. A lane of copies has spans:
 *   from, to, bytes to the GPU, bytes from it;
 * - hidden, hiddenProcesses: threads and processes without lanes;
 * - events, the longest stalls: lane or -1, start, us, cause, call site, call, step;
 * - copyEvents, the longest copies: lane or -1, start, us, bytes, whether to the GPU, way, thread;
 * - stepEvents, the longest steps: lane or -1, start, seconds, number;
 * - copyCount, stepCount: how many copies and steps with an end there are;
 * - causes, texts: the strings to which events refer by index;
 * - lengths, a histogram of stalls: lower bound in us, count, sum in us.
 */
void gf_timeline_add(json_t *page, const struct gf_answer *answer);
