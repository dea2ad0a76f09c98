/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this process samples its GPU time, and the start and end of the sampler. */
#ifndef GF_ENGINE_PROCESS_GPU_TIME_H
#define GF_ENGINE_PROCESS_GPU_TIME_H

/* Called by gf_engine_start, so that work is recorded from the first submission on. */
void gf_gpu_time_prepare(void);
/* Called on the library's thread: starts the sampler once work was submitted. */
void gf_gpu_time_start(void);

#endif
