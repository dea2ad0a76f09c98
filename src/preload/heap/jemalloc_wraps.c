/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of jemalloc that are wrapped. */
#include "os/permit.h"
#include "preload/heap/big.h"
#include "preload/heap/first_touch.h"
#include "preload/heap/jemalloc.h"
#include "preload/heap/jemalloc_replaced.h"
#include "preload/heap/reclaim.h"
#include "preload/heap/slowpath.h"

#include <gnu/libc-version.h>
#include <signal.h>
#include <sys/single_threaded.h>

/*
 * Wraps functions (jemalloc.syms) of jemalloc 5.3.0 to time them (slowpath.h). Most wrappers
 * begin and end the frame of a call. The first two time slow parts of a call that are not system
 * calls. The wrappers pass pointers to jemalloc's structs on without reading the structs.
 */

GF_WRAPPER(void, malloc_mutex_lock_slow, void *mutex)
{
    const struct gf_slowpath_mark mark = gf_slowpath_begin(gf_slowpath_lock);
    __real_je_malloc_mutex_lock_slow(mutex);
    gf_slowpath_end(&mark, gf_slowpath_lock, 0);
}

GF_WRAPPER(void *, arena_new, void *tsdn, unsigned index, const void *config)
{
    const struct gf_slowpath_mark mark = gf_slowpath_begin(gf_slowpath_setup);
    void *arena = __real_je_arena_new(tsdn, index, config);
    gf_slowpath_end(&mark, gf_slowpath_setup, 0);
    return arena;
}

#define FRAMED(kind, size, work, handed_out, call)                                                 \
    const bool framed_ = gf_slowpath_enter(kind, size, work);                                      \
    call;                                                                                          \
    if (framed_)                                                                                   \
    gf_slowpath_leave(handed_out)

/*
 * Whether this thread has run the destructors of its thread-specific data. Since 2.35, glibc blocks
 * signal 32 from then until the thread ends; a program cannot block that signal. A sealed process
 * (os/permit.h) does not make the system call that reads the blocked signals.
 */
static enum ending { ending_no, ending_yes, ending_unknown } ending(void)
{
    uint64_t blocked;

    if (gf_permit_sealed() || strverscmp(gnu_get_libc_version(), "2.35") < 0 ||
        syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &blocked, sizeof(blocked)) != 0)
        return ending_unknown;
    return blocked & (UINT64_C(1) << (__SIGRTMIN - 1)) ? ending_yes : ending_no;
}

/*
 * In jemalloc 5.3.0 a thread that only frees, such as a queue's consumer, stays "minimal". A
 * minimal thread gets no cache, and each of its frees takes the locks of the block's arena. With
 * this wrapper, the thread becomes an ordinary thread after MINIMAL_FREES frees, as in later
 * releases, or at its first other call, such as malloc.
 *
 * A thread that is ending stays minimal. At the end of a detached thread, glibc frees the
 * thread-local variables of threads that ended before, which can take hundreds of frees. If the
 * ending thread became ordinary then, jemalloc would add it to a list of threads. But the
 * destructor that removes threads from this list would not run any more, and the list would refer
 * to a stack that is unmapped later.
 */
#define MINIMAL_FREES 128

GF_WRAPPER(void *, tsd_fetch_slow, void *tsd, bool minimal)
{
    static __thread unsigned frees;
    static __thread bool is_ordinary;

    if (minimal && ++frees % MINIMAL_FREES == 0)
        minimal = ending() != ending_no;
    else if (!minimal && !is_ordinary && !__libc_single_threaded)
        minimal = ending() == ending_yes; /* this call uses arena 0 */
    is_ordinary |= !minimal;
    FRAMED(gf_slowpath_other, 0, 0, NULL, void *ret = __real_je_tsd_fetch_slow(tsd, minimal));
    return ret;
}

GF_WRAPPER(void *, tcache_alloc_small_hard, void *tsdn, void *arena, void *tcache, void *bin,
           unsigned class, bool *ret_success)
{
    FRAMED(gf_slowpath_malloc, je_sz_index2size_tab[class], 0, ret,
           void *ret =
               __real_je_tcache_alloc_small_hard(tsdn, arena, tcache, bin, class, ret_success));
    return ret;
}

GF_WRAPPER(void, tcache_bin_flush_small, void *tsd, void *tcache, void *bin, unsigned class,
           unsigned remain)
{
    FRAMED(gf_slowpath_free, je_sz_index2size_tab[class], 0, NULL,
           __real_je_tcache_bin_flush_small(tsd, tcache, bin, class, remain));
}

GF_WRAPPER(void, tcache_bin_flush_large, void *tsd, void *tcache, void *bin, unsigned class,
           unsigned remain)
{
    FRAMED(gf_slowpath_free, je_sz_index2size_tab[class], 0, NULL,
           __real_je_tcache_bin_flush_large(tsd, tcache, bin, class, remain));
}

/*
 * Wraps jemalloc's housekeeping, which is due whenever the thread has allocated or freed a number
 * of bytes. The struct that the second argument points to begins with this flag.
 */
GF_WRAPPER(void, te_event_trigger, void *tsd, const bool *allocates)
{
    FRAMED(*allocates ? gf_slowpath_malloc : gf_slowpath_free, 0, 0, NULL,
           __real_je_te_event_trigger(tsd, allocates));
}

/*
 * jemalloc purges an arena when its last thread ends (all). Then each new thread would have all page
 * faults again, although the budget bounds the free pages. jemalloc_replaced.c calls the function itself.
 */
GF_WRAPPER(void, arena_decay, void *tsdn, void *arena, bool background, bool all)
{
    FRAMED(gf_slowpath_other, 0, 0, NULL,
           __real_je_arena_decay(tsdn, arena, background, all && !gf_reclaim_managed()));
}

/* Called for blocks that threads do not cache. */
GF_WRAPPER(void *, arena_malloc_hard, void *tsdn, void *arena, size_t size, unsigned class,
           bool zero)
{
    void *ret = NULL;

    FRAMED(zero ? gf_slowpath_calloc : gf_slowpath_malloc, size, zero ? size : 0, ret,
           if (size >= GF_BIG_ALIGN) ret = gf_big_alloc(size, GF_BIG_ALIGN, zero);
           if (!ret) ret = __real_je_arena_malloc_hard(tsdn, arena, size, class, zero));
    return ret;
}

static __thread bool palloc_failed;

GF_WRAPPER(void *, arena_palloc, void *tsdn, void *arena, size_t size, size_t alignment, bool zero,
           void *tcache)
{
    FRAMED(gf_slowpath_memalign, size, zero ? size : 0, ret,
           void *ret = __real_je_arena_palloc(tsdn, arena, size, alignment, zero, tcache));
    if (gf_unlikely(!ret))
        palloc_failed = true;
    return ret;
}

/*
 * Makes a new thread's cache. jemalloc ignores that there is no memory for it, and would then write
 * to address NULL. Such a thread gets no cache.
 */
GF_WRAPPER(bool, tsd_tcache_enabled_data_init, void *tsd)
{
    palloc_failed = false;
    const bool error = __real_je_tsd_tcache_enabled_data_init(tsd);
    if (gf_unlikely(palloc_failed)) {
        je_tsd_tls.tcache_enabled = false;
        je_tsd_slow_update(tsd);
    }
    return error;
}

GF_WRAPPER(void *, arena_ralloc, void *tsdn, void *arena, void *block, size_t old_size, size_t size,
           size_t alignment, bool zero, void *tcache, void *hook)
{
    FRAMED(gf_slowpath_realloc, size, gf_min(old_size, size), ret,
           void *ret = __real_je_arena_ralloc(tsdn, arena, block, old_size, size, alignment, zero,
                                              tcache, hook));
    return ret;
}

GF_WRAPPER(void, arena_dalloc_small, void *tsdn, void *block)
{
    FRAMED(gf_slowpath_free, 0, 0, NULL, __real_je_arena_dalloc_small(tsdn, block));
}

GF_WRAPPER(void *, large_malloc, void *tsdn, void *arena, size_t size, bool zero)
{
    FRAMED(zero ? gf_slowpath_calloc : gf_slowpath_malloc, size, zero ? size : 0, ret,
           void *ret = __real_je_large_malloc(tsdn, arena, size, zero));
    return ret;
}

GF_WRAPPER(void *, large_palloc, void *tsdn, void *arena, size_t size, size_t alignment, bool zero)
{
    FRAMED(zero ? gf_slowpath_calloc : gf_slowpath_memalign, size, zero ? size : 0, ret,
           void *ret = __real_je_large_palloc(tsdn, arena, size, alignment, zero));
    return ret;
}

GF_WRAPPER(void, large_dalloc, void *tsdn, void *extent)
{
    FRAMED(gf_slowpath_free, 0, 0, NULL, __real_je_large_dalloc(tsdn, extent));
}

/*
 * Wraps the four functions (jemalloc.syms) by which jemalloc allocates and frees the pages of slabs
 * and large blocks. These functions are called about a hundred times less often than malloc and
 * free. According to jemalloc's assertions, callers of these functions hold no lock of jemalloc's
 * core. So the library may purge pages within these functions, as jemalloc itself does.
 */

static bool sizes_unknown(void)
{
    return gf_load_relaxed(&gf_budget.unknown);
}

/* The sizes of extents are then wrong, so nothing depends on them. */
static GF_COLD void note_unknown(void)
{
    gf_store_relaxed(&gf_budget.unknown, true);
    gf_store_relaxed(&gf_budget.unmanaged, true);
}

static void count_used(size_t size)
{
    gf_budget_used(&gf_budget, size);
    gf_reclaim_check(gf_reclaim_pages);
}

static void count_unused(size_t size)
{
    gf_budget_unused(&gf_budget, size);
    gf_reclaim_check(gf_reclaim_pages);
}

/* If the kernel refuses a mapping, returns all free memory to it and tries again. */
GF_WRAPPER(struct extent *, pa_alloc, void *thread, void *shard, size_t size, size_t alignment,
           bool slab, unsigned class, bool zero, bool guarded, bool *deferred)
{
    struct extent *extent =
        __real_je_pa_alloc(thread, shard, size, alignment, slab, class, zero, guarded, deferred);

    if (gf_unlikely(!extent) && gf_reclaim_all())
        extent = __real_je_pa_alloc(thread, shard, size, alignment, slab, class, zero, guarded,
                                    deferred);
    if (gf_unlikely(!extent))
        return extent;
    if (gf_unlikely(gf_extent_size(extent) != size))
        note_unknown();
    count_used(size);
    if (gf_unlikely(size >= GF_FIRST_TOUCH_MIN) && !slab && !guarded && !sizes_unknown())
        gf_first_touch_allocated(extent->start, size, size);
    return extent;
}

GF_WRAPPER(void, pa_dalloc, void *thread, void *shard, struct extent *extent, bool *deferred)
{
    const size_t size = gf_extent_size(extent);

    /* An extent of this size is a large block, because slabs are smaller. */
    if (gf_unlikely(size >= GF_FIRST_TOUCH_MIN) && !sizes_unknown())
        gf_first_touch_freed(extent->start, size, size);
    /* Counts the pages before another thread can reuse them. */
    gf_evict_freed(extent, size);
    __real_je_pa_dalloc(thread, shard, extent, deferred);
    count_unused(size);
}

/* Expands an extent in place. Returns true if that is impossible. */
GF_WRAPPER(bool, pa_expand, void *thread, void *shard, struct extent *extent, size_t before,
           size_t after, unsigned class, bool zero, bool *deferred)
{
    if (__real_je_pa_expand(thread, shard, extent, before, after, class, zero, deferred))
        return true;
    count_used(after - before);
    if (gf_unlikely(after >= GF_FIRST_TOUCH_MIN) && !sizes_unknown())
        gf_first_touch_allocated((char *)extent->start + before, after - before, after);
    return false;
}

GF_WRAPPER(bool, pa_shrink, void *thread, void *shard, struct extent *extent, size_t before,
           size_t after, unsigned class, bool *deferred)
{
    if (gf_unlikely(before >= GF_FIRST_TOUCH_MIN) && !sizes_unknown())
        gf_first_touch_freed((char *)extent->start + after, before - after, before);
    if (__real_je_pa_shrink(thread, shard, extent, before, after, class, deferred))
        return true;
    gf_evict_freed(extent, before - after);
    count_unused(before - after);
    return false;
}
