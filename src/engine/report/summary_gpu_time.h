/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_REPORT_SUMMARY_GPU_TIME_H
#define GF_ENGINE_REPORT_SUMMARY_GPU_TIME_H

#include "engine/gputime/sampler.h"

/*
 * How long the GPU had nothing to do: a line, up to three lines of causes with a remedy, and a line
 * about communication. With several GPUs: a line for each of the three emptiest, and the causes of
 * the first. Lines are separated by '\n'. Empty if there were too few samples.
 */
void gf_summary_gpu_time(const struct gf_gpu_time *time, char *buf, size_t size);

#endif
