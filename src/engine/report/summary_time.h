/* SPDX-License-Identifier: Apache-2.0 */
/* Lines: GPU time, steps. */
#pragma once

#include "engine/gputime/sampler.h"
#include "engine/report/report_data.h"

/*
 * Writes how long the GPU had nothing to do: one line, then up to three lines of causes, each with
 * a remedy, and a line about communication. Time with only copies is one of these causes if it is
 * at least 5 %. With several GPUs, writes a line for each of the three
 * that were empty for the longest time, and the causes for the first of them. Lines are separated
 * by '\n'. The text is empty if there were too few samples.
 */
void gf_summary_gpu_time(const struct gf_gpu_time *time, char *buf, size_t size);

#define GF_REMEDY 160

/*
 * Writes what helps against a cause of the device's time without work, and returns `buf`: "" if no
 * remedy is known, if the cause took less than 5 % of the time, or if most of it was a single gap.
 */
const char *gf_summary_gpu_time_remedy(const struct gf_gpu_time *time,
                                       const struct gf_gpu_time_device *device,
                                       enum gf_host_cause cause, char *buf, size_t size);

/* Writes the line of the summary that says how long steps took; "" if no steps were found. */
void gf_summary_steps(const struct gf_report *report, char *buf, size_t size);

/* Returns the words for what the submitting thread did while a GPU had nothing to do. */
const char *gf_summary_gpu_time_cause(enum gf_host_cause cause);
