/* SPDX-License-Identifier: Apache-2.0 */
/* What is known about steps from the GPU's time: waits for data, and why a step was slow. */
#ifndef GF_ENGINE_GPUTIME_STEP_CAUSES_H
#define GF_ENGINE_GPUTIME_STEP_CAUSES_H

#include "abi/step_api.h"
#include "engine/gputime/sampler.h"

/*
 * The mean time of a step in which a GPU had nothing to do because the program waited for data. The
 * GPU that waited for the longest time counts. UINT64_MAX if the GPU's time was not sampled.
 */
uint64_t gf_step_causes_data_ns(const struct gf_step_times *times, const struct gf_gpu_time *gpu);

/*
 * The longest of the known gaps that lies in the step for at least a quarter of it; its time in
 * *ret_ns. NULL if there is none. Only the longest gaps of each GPU are known.
 */
const struct gf_gpu_gap *gf_step_causes_gap(const struct gf_slow_step *step,
                                            const struct gf_gpu_time *gpu, uint64_t *ret_ns);

#endif
