/* SPDX-License-Identifier: Apache-2.0 */
/* jemalloc's settings, through its compiled-in symbol: never the environment, which children and
 * other embedded jemallocs read. A user's MALLOC_CONF still wins. */
#ifndef GF_HEAP_SETTINGS_H
#define GF_HEAP_SETTINGS_H

#include "config/birth.h"
#include "heap/heap.h"

/* Once, before jemalloc's first call. */
void gf_settings_apply(const struct gf_birth *birth);

/* Once, after it. */
void gf_settings_align_tiny(void);

/* Whether freed pages decay as set here, and not by a user's MALLOC_CONF. After jemalloc's start. */
bool gf_settings_decay_is_ours(void);

/* gf_heap_ops.setting */
bool gf_settings_read(size_t i, struct gf_heap_setting *ret);

/* Threads born from now on take their arenas from the first `cpus`. */
void gf_settings_set_cpus(unsigned cpus);
void gf_settings_thread_born(void);

/* The calling thread, before its first call of the heap, shares the main thread's arena. */
void gf_settings_thread_aside(void);

/* In a forked child, whose parent may have had a thread in there. */
void gf_settings_in_child(void);

#endif
