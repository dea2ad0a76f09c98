/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_REPORT_SUMMARY_GPU_TIME_H
#define GF_ENGINE_REPORT_SUMMARY_GPU_TIME_H

#include "engine/gputime/sampler.h"

/*
 * Writes how long the GPU had nothing to do: one line, then up to three lines of causes, each with
 * a remedy, and a line about communication. Time with only copies is one of these causes if it is
 * at least 5 %. With several GPUs, writes a line for each of the three
 * that were empty for the longest time, and the causes for the first of them. Lines are separated
 * by '\n'. The text is empty if there were too few samples.
 */
void gf_summary_gpu_time(const struct gf_gpu_time *time, char *buf, size_t size);

/* Returns the summary's words for a cause, for example "waiting for data". */
const char *gf_summary_gpu_time_cause(enum gf_host_cause cause);

#endif
