/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded jemalloc under the names that scripts/embed-jemalloc.sh gives it. */
#ifndef GF_HEAP_JEMALLOC_H
#define GF_HEAP_JEMALLOC_H

#include "base/base.h"

#include <sys/types.h>

void *je_malloc(size_t size);
void *je_calloc(size_t count, size_t size);
void *je_realloc(void *block, size_t size);
void je_free(void *block);
int je_posix_memalign(void **ret, size_t alignment, size_t size);
void *je_aligned_alloc(size_t alignment, size_t size);
size_t je_malloc_usable_size(const void *block);
int je_mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size);

/* The compiled-in settings: weaker than /etc/malloc.conf and MALLOC_CONF. Read at the first call. */
extern const char *je_malloc_conf;
/* What an arena gets at birth; private to jemalloc, listed in jemalloc.syms. */
extern size_t je_oversize_threshold;
/* The decay in force for new arenas, of MALLOC_CONF where that sets it; likewise. */
extern ssize_t je_opt_dirty_decay_ms, je_opt_muzzy_decay_ms;
/* How the system is set for huge pages: 0 by madvise, 1 always, 2 never, 3 not at all; likewise. */
extern int je_init_system_thp_mode;
/* The class of each size, by size / 8 rounded up, and the size of each class; likewise. */
extern uint8_t je_sz_size2index_tab[];
extern size_t je_sz_index2size_tab[];
/* Pages in a set of free extents; likewise. */
size_t je_eset_npages_get(void *set);
/* Whether it has threads of its own, by the user's MALLOC_CONF; likewise. Atomic. */
extern bool je_background_thread_enabled_state;
/* Whether heap profiling is on; likewise. */
extern bool je_opt_prof;

/* Arenas by number, and how many threads each has, by kind of call; likewise. */
extern void *je_arenas[];
unsigned je_arena_nthreads_get(void *arena, bool internal);
void je_arena_nthreads_inc(void *arena, bool internal);
void je_arena_nthreads_dec(void *arena, bool internal);

/* jemalloc calls this by this name: jemalloc.syms. */
int gf_heap_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

#define GF_ARENAS_ALL "4096" /* MALLCTL_ARENAS_ALL */

#endif
