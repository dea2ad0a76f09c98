/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of jemalloc that its objects call across each other, linked with --wrap (jemalloc.syms): the
 * frames of calls, and the two parts that are not system calls. Signatures are those of 5.3.0;
 * pointers to its structs are passed on unseen.
 */
#include "heap/jemalloc.h"
#include "heap/keep.h"
#include "heap/slow.h"

#define WRAPS(type, name, ...) \
    type __real_je_##name(__VA_ARGS__); \
    type __wrap_je_##name(__VA_ARGS__)

WRAPS(void, malloc_mutex_lock_slow, void *mutex);
WRAPS(void *, arena_new, void *tsdn, unsigned index, const void *config);
WRAPS(void *, tsd_fetch_slow, void *tsd, bool minimal);
WRAPS(void *, tcache_alloc_small_hard, void *tsdn, void *arena, void *tcache, void *bin,
      unsigned class, bool *ret_success);
WRAPS(void, tcache_bin_flush_small, void *tsd, void *tcache, void *bin, unsigned class,
      unsigned remain);
WRAPS(void, tcache_bin_flush_large, void *tsd, void *tcache, void *bin, unsigned class,
      unsigned remain);
WRAPS(void, te_event_trigger, void *tsd, const bool *context);
WRAPS(void, arena_decay, void *tsdn, void *arena, bool background, bool all);
WRAPS(void *, arena_malloc_hard, void *tsdn, void *arena, size_t size, unsigned class, bool zero);
WRAPS(void *, arena_palloc, void *tsdn, void *arena, size_t size, size_t alignment, bool zero,
      void *tcache);
WRAPS(void *, arena_ralloc, void *tsdn, void *arena, void *block, size_t old_size, size_t size,
      size_t alignment, bool zero, void *tcache, void *hook);
WRAPS(void, arena_dalloc_small, void *tsdn, void *block);
WRAPS(void *, large_malloc, void *tsdn, void *arena, size_t size, bool zero);
WRAPS(void *, large_palloc, void *tsdn, void *arena, size_t size, size_t alignment, bool zero);
WRAPS(void, large_dalloc, void *tsdn, void *extent);

void __wrap_je_malloc_mutex_lock_slow(void *mutex)
{
    const struct gf_slow_mark mark = gf_slow_begin(gf_slow_lock);
    __real_je_malloc_mutex_lock_slow(mutex);
    gf_slow_end(&mark, gf_slow_lock, 0);
}

void *__wrap_je_arena_new(void *tsdn, unsigned index, const void *config)
{
    const struct gf_slow_mark mark = gf_slow_begin(gf_slow_setup);
    void *arena = __real_je_arena_new(tsdn, index, config);
    gf_slow_end(&mark, gf_slow_setup, 0);
    return arena;
}

#define FRAMED(kind, size, work, handed_out, call)                                                 \
    const bool framed_ = gf_slow_enter(kind, size, work);                                          \
    call;                                                                                          \
    if (framed_)                                                                                   \
        gf_slow_leave(handed_out)

/*
 * A thread that only frees, as those that hand on what others have read, stays "minimal" in 5.3.0: it gets
 * no cache, and each of its frees takes the locks of the block's arena. As later jemallocs do, it becomes
 * a thread like any other after some of them; its first malloc would have done the same.
 */
#define FREES_MOST 128

void *__wrap_je_tsd_fetch_slow(void *tsd, bool minimal)
{
    static __thread unsigned frees;

    if (minimal && gf_likely(frees < FREES_MOST))
        frees++;
    else
        minimal = false;
    FRAMED(gf_slow_other, 0, 0, NULL, void *ret = __real_je_tsd_fetch_slow(tsd, minimal));
    return ret;
}

void *__wrap_je_tcache_alloc_small_hard(void *tsdn, void *arena, void *tcache, void *bin,
                                    unsigned class, bool *ret_success)
{
    FRAMED(gf_slow_malloc, je_sz_index2size_tab[class], 0, ret,
           void *ret = __real_je_tcache_alloc_small_hard(tsdn, arena, tcache, bin, class, ret_success));
    return ret;
}

void __wrap_je_tcache_bin_flush_small(void *tsd, void *tcache, void *bin, unsigned class,
                                  unsigned remain)
{
    FRAMED(gf_slow_free, je_sz_index2size_tab[class], 0, NULL,
           __real_je_tcache_bin_flush_small(tsd, tcache, bin, class, remain));
}

void __wrap_je_tcache_bin_flush_large(void *tsd, void *tcache, void *bin, unsigned class,
                                  unsigned remain)
{
    FRAMED(gf_slow_free, je_sz_index2size_tab[class], 0, NULL,
           __real_je_tcache_bin_flush_large(tsd, tcache, bin, class, remain));
}

/* Housekeeping that comes with every so many bytes; the context's first field: for an allocation. */
void __wrap_je_te_event_trigger(void *tsd, const bool *context)
{
    FRAMED(*context ? gf_slow_malloc : gf_slow_free, 0, 0, NULL,
           __real_je_te_event_trigger(tsd, context));
}

/* jemalloc wants all when an arena's last thread ends: keep.h. */
void __wrap_je_arena_decay(void *tsdn, void *arena, bool background, bool all)
{
    FRAMED(gf_slow_other, 0, 0, NULL,
           __real_je_arena_decay(tsdn, arena, background, all && gf_keep_means_all()));
}

void *__wrap_je_arena_malloc_hard(void *tsdn, void *arena, size_t size, unsigned class, bool zero)
{
    FRAMED(zero ? gf_slow_calloc : gf_slow_malloc, size, zero ? size : 0, ret,
           void *ret = __real_je_arena_malloc_hard(tsdn, arena, size, class, zero));
    return ret;
}

void *__wrap_je_arena_palloc(void *tsdn, void *arena, size_t size, size_t alignment, bool zero,
                         void *tcache)
{
    FRAMED(gf_slow_memalign, size, zero ? size : 0, ret,
           void *ret = __real_je_arena_palloc(tsdn, arena, size, alignment, zero, tcache));
    return ret;
}

void *__wrap_je_arena_ralloc(void *tsdn, void *arena, void *block, size_t old_size, size_t size,
                         size_t alignment, bool zero, void *tcache, void *hook)
{
    FRAMED(gf_slow_realloc, size, gf_min(old_size, size), ret,
           void *ret = __real_je_arena_ralloc(tsdn, arena, block, old_size, size, alignment, zero, tcache,
                                       hook));
    return ret;
}

void __wrap_je_arena_dalloc_small(void *tsdn, void *block)
{
    FRAMED(gf_slow_free, 0, 0, NULL, __real_je_arena_dalloc_small(tsdn, block));
}

void *__wrap_je_large_malloc(void *tsdn, void *arena, size_t size, bool zero)
{
    FRAMED(zero ? gf_slow_calloc : gf_slow_malloc, size, zero ? size : 0, ret,
           void *ret = __real_je_large_malloc(tsdn, arena, size, zero));
    return ret;
}

void *__wrap_je_large_palloc(void *tsdn, void *arena, size_t size, size_t alignment, bool zero)
{
    FRAMED(zero ? gf_slow_calloc : gf_slow_memalign, size, zero ? size : 0, ret,
           void *ret = __real_je_large_palloc(tsdn, arena, size, alignment, zero));
    return ret;
}

void __wrap_je_large_dalloc(void *tsdn, void *extent)
{
    FRAMED(gf_slow_free, 0, 0, NULL, __real_je_large_dalloc(tsdn, extent));
}
