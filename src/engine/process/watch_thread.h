/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_PROCESS_WATCH_THREAD_H
#define GF_ENGINE_PROCESS_WATCH_THREAD_H

/*
 * The main function of the library's thread: guard, late threads, page moves, samples, the report.
 * Returns at the end of the process.
 */
void gf_watch_thread_run(void);

#endif
