/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs what happened in each interval: threads with large delays outside of hooked calls (run-queue
 * delay, throttling, first touches of pages), and the activity of GPUs and copies.
 */
#ifndef GF_ENGINE_PROCESS_INTERVALS_H
#define GF_ENGINE_PROCESS_INTERVALS_H

/* Begins the first interval. Called by gf_engine_start. */
void gf_intervals_start(void);

/*
 * Logs the interval since the last line of each kind if it is long enough. Called on the library's
 * thread.
 */
void gf_intervals_log(void);

/* Logs the activity since the last line. Called on the exiting thread. */
void gf_intervals_end(void);

#endif
