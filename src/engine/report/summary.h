/* SPDX-License-Identifier: Apache-2.0 */
/* Lines on standard error: placement, stalls, copies; summary_time.c: GPU time and steps. */
#pragma once

#include "engine/report/report_data.h"

/*
 * Writes the line after a decision: "GPU 0 NVIDIA H200 0000:41:00.0 node 1 (sysfs): 18 threads and
 * 8 worker threads on CPUs 8-15; memory prefers node 1", or the reason why nothing was bound.
 */
void gf_summary_verdict(const struct gf_decision *decision, const struct gf_options *options,
                        struct gf_textbuf *out);

/*
 * Writes the line of a process that shares a GPU with others through MPS, with the limits that the
 * environment sets for it; nothing if it does not.
 */
void gf_summary_mps(const struct gf_decision *decision, struct gf_textbuf *out);

/* Writes the line at exit: the placement as it was read back from the kernel. */
void gf_summary_exit(const struct gf_report *report, struct gf_textbuf *out);

/*
 * Writes the exit summary's line about stalls, which is printed even if there was no stall. Writes
 * nothing if calls were not timed.
 */
void gf_summary_stalls(const struct gf_report *report, struct gf_textbuf *out);

/*
 * Writes the line of the summary about copies and pinned memory; nothing if almost nothing was
 * copied.
 */
void gf_summary_transfers(const struct gf_report_transfers *transfers,
                          gf_hook_counts_fn *hook_counts, struct gf_textbuf *out);

/* Waits that take less than one part in this many of the time are not mentioned. */
#define GF_COPY_WAIT_SHARE 100u

/*
 * Writes the end of the line, which names the line of Python whose copies waited longest for their
 * stream, and what helps. Writes nothing if these waits take less than 1 % of the time.
 */
void gf_summary_copy_waits(const struct gf_report *report, struct gf_textbuf *out);

/* Writes a sentence for the log about the waits of a line in an interval, and what helps. */
void gf_summary_copy_wait(const struct gf_copy_wait_line *line, uint64_t interval_ns,
                          struct gf_textbuf *out);

/*
 * Writes how long the GPU had nothing to do: one line, then lines of causes, each with a remedy, and
 * a line about communication. Three causes have lines, and further ones of at least 10 % that were
 * mostly at the start or are larger than one of these. Time with only copies is one of these causes
 * if it is at least 5 %. With several GPUs, writes a line for each of the three that were empty for
 * the longest time, and the causes for the first of them. Lines are separated by '\n'. Writes
 * nothing if there were too few samples.
 */
void gf_summary_gpu_time(const struct gf_gpu_time *time, struct gf_textbuf *out);

#define GF_SUMMARY_TEXT 4096 /* enough for gf_summary_gpu_time in most cases */
#define GF_REMEDY 160

/*
 * Writes what helps against a cause of the device's time without work, and returns `buf`: "" if no
 * remedy is known, if the cause took less than 5 % of the time, or if most of it was a single gap.
 */
const char *gf_summary_gpu_time_remedy(const struct gf_gpu_time *time,
                                       const struct gf_gpu_time_device *device,
                                       enum gf_host_cause cause, char *buf, size_t size);

/*
 * Writes " at train.py:12 in step", or nothing for an unknown line. Only the file's name, which a user
 * knows; the report has the path.
 */
void gf_summary_line(const struct gf_python_line *at, struct gf_textbuf *out);

/* Writes the line of the summary that says how long steps took; nothing if no steps were found. */
void gf_summary_steps(const struct gf_report *report, struct gf_textbuf *out);

/* Returns the words for what the submitting thread did while a GPU had nothing to do. */
const char *gf_summary_gpu_time_cause(enum gf_host_cause cause);
