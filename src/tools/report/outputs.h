/* SPDX-License-Identifier: Apache-2.0 */
/* What `gpufeed report` writes, each form in a file of its own. */
#pragma once

#include "tools/answer/parts.h"

/*
 * event_list.c: prints all events that pass the filter on standard output, in the order of their
 * times. Damaged lines are named on standard error. filter->last_s is ignored. Returns false if a
 * source cannot be read, or if an operand names a file that is not a log.
 */
bool gf_event_list_print(const struct gf_sources *sources, const struct gf_job_filter *filter);

/*
 * folded.c: prints the stalled microseconds of each stack in the folded format of flame graph tools
 * and speedscope: "main.py:9 in main;train.py:4 in load;free (purge) 16894". The outermost frame is
 * the first one. `by` is GF_BY_COUNT, or a property whose value becomes the first frame.
 */
void gf_folded_print(const struct gf_job *job, enum gf_by by);

/*
 * Prints the microseconds in which GPUs had nothing to do, by path and cause, from reports:
 * "train.py:<module>;train.py:step;sleep 16894". With `by_rank`, the rank is the first frame. Returns
 * false if no report has a path.
 */
bool gf_idle_folded_print(const struct gf_job *job, bool by_rank);

/* Returns the same as {"stacks": [text], "rows": [[rank or -1, index of the stack, us]]}. */
json_t *gf_idle_stacks(const struct gf_job *job);

/*
 * Returns the stalled time in this form. The cause ends a stack. The stacks with the least time are
 * summed as "..." if they are too many for a page.
 */
json_t *gf_stall_stacks(const struct gf_job *job);

/*
 * html.c: writes a self-contained page: the answer, a timeline, stalled time by line, durations of
 * stalls, copies, ranks, locality and settings. The timeline draws the longest stalls one by one, and
 * the sum of all stalls per interval.
 */
void gf_html_write(FILE *out, const struct gf_answer *answer);

/*
 * timeline.c: the events and the activity of a job over time, for a page. Their number is limited to
 * what a browser can draw.
 */

#define GF_TIMELINE_BINS 300
#define GF_TIMELINE_EVENTS 1000 /* limit of stalls, of copies, and of steps */
#define GF_TIMELINE_SPANS 500   /* limit of the spans of a lane */

/*
 * Adds these members to `page`. Times are seconds since the job's start.
 * - lanes: name, kind, and whose they are. A thread's lane has bins: the stalled microseconds of
 *   intervals. A GPU's lane has spans: from, to, and the thousandths of each state. A lane of copies
 *   has spans: from, to, bytes to the GPU, bytes from it;
 * - hidden, hiddenProcesses: threads and processes without lanes;
 * - events, the longest stalls: lane or -1, start, us, cause, call site, call, step;
 * - copyEvents, the longest copies: lane or -1, start, us, bytes, whether to the GPU, way, thread;
 * - stepEvents, the longest steps: lane or -1, start, seconds, number;
 * - copyCount, stepCount: how many copies and steps with an end there are;
 * - causes, texts: the strings to which events refer by index;
 * - lengths, a histogram of stalls: lower bound in us, count, sum in us.
 */
void gf_timeline_add(json_t *page, const struct gf_answer *answer);

/*
 * perfetto.c: maps a trace of PyTorch's profiler (Kineto). Returns 0 or -errno: -EINVAL if the file is
 * not a trace, -EPROTONOSUPPORT if it is compressed, -ENOTSUP if it is a list of events, whose times
 * have no known start. The caller calls gf_bus_error_survive, because the file may be truncated while
 * it is mapped. At most one trace is open.
 */
int gf_torch_trace_open(const char *path);
void gf_torch_trace_close(void);

/*
 * Writes a trace in Chrome's JSON format, for ui.perfetto.dev: each stall as a slice of its thread,
 * other events as instants. If PyTorch's trace is open, the file also contains its events, on the same
 * clock (CLOCK_REALTIME).
 */
void gf_perfetto_write(FILE *out, const struct gf_answer *answer);

/*
 * prometheus.c: writes metrics of each process in Prometheus's text format, for node_exporter's
 * textfile collector. Names contain the unit; lines have labels, but no timestamps.
 */
void gf_prometheus_write(FILE *out, const struct gf_answer *answer);
