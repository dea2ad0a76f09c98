/* SPDX-License-Identifier: Apache-2.0 */
/* GPU time; the log's activity. */
#pragma once

#include "base/json.h"
#include "engine/gputime/sampler.h"

/* Writes the report's section "gpu_time". started_ns: gf_report.started_ns, on the clock of gaps. */
void gf_report_gpu_time_put(struct gf_json *json, const struct gf_gpu_time *time,
                            uint64_t started_ns);

/*
 * Writes for the event log what GPUs and copies did since the last call: each GPU's time by state,
 * sums of copies, and the longest copies. Returns false if nothing has happened since then. Only one
 * thread at a time may call this function.
 */
bool gf_report_activity_put(struct gf_json *json);
