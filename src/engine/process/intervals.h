/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The delays of threads between their calls: run-queue delay, throttling, first touches of pages.
 * The library's thread reads them at intervals and logs large ones.
 */
#ifndef GF_ENGINE_PROCESS_INTERVALS_H
#define GF_ENGINE_PROCESS_INTERVALS_H

/* Logs the interval since the last call, if it is long enough to be meaningful. */
void gf_intervals_log(void);

#endif
