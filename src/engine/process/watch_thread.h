/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The main function of the library's thread. It runs the starvation guard, binds late threads,
 * moves pages, takes samples and writes the report. Returns at the end of the process.
 */
void gf_watch_thread_run(void);
