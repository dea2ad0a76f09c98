/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_PROCESS_WATCH_THREAD_H
#define GF_ENGINE_PROCESS_WATCH_THREAD_H

/*
 * The main function of the library's thread. It runs the starvation guard, binds late threads,
 * moves pages, takes samples and writes the report. Returns at the end of the process.
 */
void gf_watch_thread_run(void);

#endif
