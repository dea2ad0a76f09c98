/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/arenas.h"

#include "base/atomic.h"
#include "preload/heap/jemalloc.h"
#include "preload/heap/mode.h"

#include <pthread.h>

static _Atomic unsigned arena_limit; /* 0: jemalloc chooses */
static _Atomic unsigned arena_turn;

void gf_arenas_set_cpus(unsigned cpus)
{
    unsigned arenas = 0;
    size_t size = sizeof(arenas);

    if (je_mallctl("opt.narenas", &arenas, &size, NULL, 0) != 0 || cpus >= arenas)
        cpus = 0;
    gf_store_relaxed(&arena_limit, cpus);
}

void gf_arenas_thread_started(void)
{
    const unsigned limit = gf_load_relaxed(&arena_limit);

    if (gf_likely(limit == 0))
        return;
    gf_keep_errno();
    unsigned arena = gf_add_relaxed(&arena_turn, 1) % limit;
    /* With the setting percpu_arena, this call fails, and jemalloc itself assigns arenas by CPU. */
    je_mallctl("thread.arena", NULL, NULL, &arena, sizeof(arena));
}

/*
 * Held while the thread counts of arena 0 are temporarily set to 0. Without this lock, two threads
 * could subtract the same counts, which would become negative.
 */
static pthread_mutex_t share_lock = PTHREAD_MUTEX_INITIALIZER;

static void add_threads(void *arena, unsigned times, bool internal, void (*add)(void *, bool))
{
    for (unsigned i = 0; i < times; i++)
        add(arena, internal);
}

/*
 * At a thread's first heap call, jemalloc assigns to it an arena that no other thread uses, if
 * there is one. So arena 0's two thread counts (for the program's calls and for jemalloc's own) are
 * set to 0 during that call. If mallctl("thread.arena") were used instead, jemalloc would count the
 * thread in two arenas.
 */
void gf_arenas_share_main(void)
{
    if (!gf_mode_is_jemalloc())
        return;
    pthread_mutex_lock(&share_lock);
    void *const first = __atomic_load_n(&je_arenas[0], __ATOMIC_ACQUIRE);
    const unsigned threads = je_arena_nthreads_get(first, false),
                   own = je_arena_nthreads_get(first, true);

    add_threads(first, threads, false, je_arena_nthreads_dec);
    add_threads(first, own, true, je_arena_nthreads_dec);
    je_free(je_malloc(1));
    add_threads(first, threads, false, je_arena_nthreads_inc);
    add_threads(first, own, true, je_arena_nthreads_inc);
    pthread_mutex_unlock(&share_lock);
}

void gf_arenas_in_child(void)
{
    share_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
