/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the memory of the cgroup and the host. If it may run short, the heap returns the freed
 * memory that it keeps. Also returns what the heap may keep no longer. Runs on the library's thread.
 */
#ifndef GF_ENGINE_PROCESS_MEMORY_WATCH_H
#define GF_ENGINE_PROCESS_MEMORY_WATCH_H

#include <stdint.h>

/* Starts the watch. Called once, before the first check. */
void gf_memory_watch_start(void);

/*
 * If a check is due, reads the counters, and purges if necessary. Returns the time
 * at which the next check is due.
 */
uint64_t gf_memory_watch_check(uint64_t now_ns);

#endif
