/* SPDX-License-Identifier: Apache-2.0 */
/* What each interval logs; starts the sampler. */
#pragma once

/*
 * Logs what happened in each interval: threads with large delays outside of hooked calls (run-queue
 * delay, throttling, first touches of pages), and the activity of GPUs and copies.
 */

/* Begins the first interval. Called by gf_engine_start. */
void gf_intervals_start(void);

/*
 * Logs the interval since the last line of each kind if it is long enough. Called on the library's
 * thread.
 */
void gf_intervals_log(void);

/* Logs the activity since the last line. Called on the exiting thread. */
void gf_intervals_end(void);

/*
 * Decides whether this process samples its GPU time, and prepares the sampler. Called by
 * gf_engine_start, so that work is recorded from the first submission on.
 */
void gf_gpu_time_prepare(void);
/* Starts the sampler if work was submitted. Called on the library's thread. */
void gf_gpu_time_start(void);
