/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the program's GPU by the contexts that were given work, if no hook has told it. On a busy
 * machine, cuInit does not wait for the end of the engine's load, and the program creates its
 * contexts meanwhile. May be called on any thread.
 */
void gf_contexts_find(void);

/*
 * The main function of the library's thread. It runs the starvation guard, binds late threads,
 * moves pages, takes samples and writes the report. Returns at the end of the process.
 */
void gf_watch_thread_run(void);
