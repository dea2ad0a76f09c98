/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions and variables of the embedded jemalloc, with the names that scripts/embed-jemalloc.sh
 * gives them. jemalloc's sources document them: github.com/jemalloc/jemalloc, release 5.3.0.
 * jemalloc.syms lists the functions and variables that are private to jemalloc.
 */
#pragma once

#include "base/base.h"

void *je_malloc(size_t size);
void *je_calloc(size_t count, size_t size);
void *je_realloc(void *block, size_t size);
void je_free(void *block);
int je_posix_memalign(void **ret, size_t alignment, size_t size);
void *je_aligned_alloc(size_t alignment, size_t size);
size_t je_malloc_usable_size(const void *block);
int je_mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size);

/*
 * Compiled-in settings, which jemalloc reads at its first call. /etc/malloc.conf and MALLOC_CONF
 * override them.
 */
extern const char *je_malloc_conf;
/*
 * A function that gets each line that jemalloc would print. If it is NULL, jemalloc prints the
 * lines itself.
 */
extern void (*je_malloc_message)(void *closure, const char *text);
/* The oversize threshold. An arena copies it when the arena is created. */
extern size_t je_oversize_threshold;
/* The decay times for new arenas, in milliseconds, from the library or from MALLOC_CONF. */
extern ssize_t je_opt_dirty_decay_ms, je_opt_muzzy_decay_ms;
/* The system's setting for huge pages: 0 madvise, 1 always, 2 never, 3 not supported. */
extern int je_init_system_thp_mode;
/*
 * Two tables. The first contains the number of a size's class, and is indexed by the size, divided
 * by 8 and rounded up. The second contains the size of each class.
 */
extern uint8_t je_sz_size2index_tab[];
extern size_t je_sz_index2size_tab[];
/*
 * Whether jemalloc keeps the addresses of purged pages mapped. jemalloc reads it at each purge, so it
 * is written atomically. It may become false at any time, but never true again: jemalloc would merge
 * extents of two arenas that it has mapped meanwhile.
 */
extern bool je_opt_retain;
/*
 * The first fields of a thread's state. While reentrancy_level is not 0, the thread's calls use
 * arena 0, and no cache. je_tsd_slow_update makes a new level effective.
 */
struct je_tsd {
    bool tcache_enabled;
    int8_t reentrancy_level;
};
extern __thread struct je_tsd je_tsd_tls __attribute__((visibility("hidden")));
void je_tsd_slow_update(void *tsd);
/* Whether heap profiling is on, and whether jemalloc fills new blocks. */
extern bool je_opt_prof, je_opt_junk_alloc, je_opt_zero;

/*
 * je_arenas contains the arenas by number; read its elements atomically. The functions read and
 * change the number of threads that use an arena for jemalloc's internal calls, or for calls of the
 * program.
 */
extern void *je_arenas[];
unsigned je_arena_nthreads_get(void *arena, bool internal);
void je_arena_nthreads_inc(void *arena, bool internal);
void je_arena_nthreads_dec(void *arena, bool internal);

/* The default of tcache_nslots_large; jemalloc_replaced.c lowers it for the larger classes. */
#define GF_JEMALLOC_LARGE_SLOTS 8
#define GF_ARENAS_ALL "4096" /* MALLCTL_ARENAS_ALL */
