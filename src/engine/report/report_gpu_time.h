/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report's section "gpu_time". */
#ifndef GF_ENGINE_REPORT_REPORT_GPU_TIME_H
#define GF_ENGINE_REPORT_REPORT_GPU_TIME_H

#include "base/json.h"
#include "engine/gputime/sampler.h"

/* started_ns: gf_report.started_ns, which is on the same clock as the start of gaps. */
void gf_report_gpu_time_put(struct gf_json *json, const struct gf_gpu_time *time,
                            uint64_t started_ns);

#endif
