/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether this process samples its GPU time, and starts the sampler. */
#ifndef GF_ENGINE_PROCESS_GPU_TIME_H
#define GF_ENGINE_PROCESS_GPU_TIME_H

/*
 * Prepares the sampler. Called by gf_engine_start, so that work is recorded from the first
 * submission on.
 */
void gf_gpu_time_prepare(void);
/* Starts the sampler if work was submitted. Called on the library's thread. */
void gf_gpu_time_start(void);

#endif
