/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_REPORT_SUMMARY_GPU_TIME_H
#define GF_ENGINE_REPORT_SUMMARY_GPU_TIME_H

#include "engine/gputime/sampler.h"

/* How long the GPU had nothing to do, and what the host did then. "" if nothing was sampled. */
void gf_summary_gpu_time(const struct gf_gpu_time *time, char *buf, size_t size);

#endif
