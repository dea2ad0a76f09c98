/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch on memory: lazily frees or purges the freed pages that the heap retains, before the
 * host or another process runs short of memory. Runs on the library's thread.
 */
#ifndef GF_ENGINE_PROCESS_MEMORY_WATCH_H
#define GF_ENGINE_PROCESS_MEMORY_WATCH_H

#include <stdint.h>

/* Called once, before the first check. */
void gf_memory_watch_start(void);

/* Reads memory if a reading is due, and acts on it. Returns when the next reading is due. */
uint64_t gf_memory_watch_check(uint64_t now_ns);

#endif
