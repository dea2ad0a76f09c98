/* SPDX-License-Identifier: Apache-2.0 */
/* The report and its sections, each subject in a file of its own, and the metrics. */
#pragma once

#include "base/json.h"
#include "engine/report/report_data.h"

/*
 * report.c: writes the report into buf as JSON; docs/report.md describes its fields. Like snprintf,
 * returns the length of the whole report, which may exceed `size`.
 */
size_t gf_report_json(const struct gf_report *report, char *buf, size_t size);

/* Adds a sample. If the table is full, first removes every second sample. Never fails. */
void gf_report_add_sample(struct gf_report *report, const struct gf_report_sample *sample);

const char *gf_report_event_name(enum gf_report_event_kind kind);

/*
 * report_memory.c: writes the section "heap": the heap's settings and counters, its pages by node, and
 * the memory watch.
 */
void gf_report_memory_put(struct gf_json *json, const struct gf_report *report);

/* Write an object with the numbers of bytes by node. GF_NODE_BYTES_UNKNOWN: on several or unknown nodes. */
void gf_report_memory_put_pages(struct gf_json *json, const char *key,
                                const struct gf_pages *pages);
void gf_report_memory_put_nodes(struct gf_json *json, const char *key, const uint64_t *bytes,
                                unsigned count);

/* Writes the section "kept": all memory that the library holds and the program does not use. */
void gf_report_kept_put(struct gf_json *json, const struct gf_report *report);
/* Computes the sum of that section. */
uint64_t gf_report_kept_bytes(const struct gf_report *report);

/*
 * report_gpu_time.c: writes the section "gpu_time". started_ns: gf_report.started_ns, on the clock of
 * gaps.
 */
void gf_report_gpu_time_put(struct gf_json *json, const struct gf_gpu_time *time,
                            uint64_t started_ns);

/*
 * Writes for the event log what GPUs and copies did since the last call: each GPU's time by state,
 * sums of copies, and the longest copies. Returns false if nothing has happened since then. Only one
 * thread at a time may call this function.
 */
bool gf_report_activity_put(struct gf_json *json);

/* Writes the members `file`, `line` and `function`. */
void gf_report_line_put(struct gf_json *json, const struct gf_python_line *at);

/* report_steps.c: the sections `steps` and `step_times`, and the slow steps of the log. */
void gf_report_steps_put(struct gf_json *json, const struct gf_report *report);

/* Logs an event. fields: a JSON object. */
typedef void gf_report_steps_log_fn(const char *event, const char *fields);

/*
 * Logs the slow steps that have become the longest since the last call, and what was different in
 * them. Steps whose facts are not complete yet are logged by a later call, or if `last` is true. If
 * two threads call this function at the same time, one of the calls does nothing.
 */
void gf_report_steps_log(const struct gf_step_times *times, bool last, gf_report_steps_log_fn *log);

/* Writes the sections "stalls", "latency" and "log". */
void gf_report_stalls_put(struct gf_json *json, const struct gf_report *report);

/* report_transfers.c: copies and pinned memory. */
void gf_report_transfers_put(struct gf_json *json, const struct gf_report_transfers *transfers,
                             gf_hook_counts_fn *hook_counts);

/* Copies of pageable memory that waited for earlier work of their own stream. */
void gf_report_copy_waits_put(struct gf_json *json, const struct gf_report *report);

/* Enough bytes for all metrics of a process. */
#define GF_REPORT_METRICS_BYTES ((size_t)128 << 10)

/*
 * report_metrics.c: writes the report's main numbers as metrics in the text format of Prometheus
 * (abi/formats.h) into buf. Returns the length of the text; 0 if it does not fit.
 */
size_t gf_report_metrics(const struct gf_report *report, char *buf, size_t size);
