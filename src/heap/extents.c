/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked with --wrap (jemalloc.syms). jemalloc calls these four without holding any lock of its
 * core (its own assertions say so), so what follows the original may purge, as jemalloc itself does
 * there.
 */
#include "heap/extents.h"

#include "heap/jemalloc.h"
#include "heap/keep.h"
#include "heap/touch.h"

/* 5.3.0's; proven by each allocation, whose size is known beforehand. */
struct extent {
    uint64_t bits;
    void *start;
    size_t size_and_serial;
};

struct extent *__real_je_pa_alloc(void *thread, void *shard, size_t size, size_t alignment,
                                  bool slab, unsigned class, bool zero, bool guarded,
                                  bool *deferred);
struct extent *__wrap_je_pa_alloc(void *thread, void *shard, size_t size, size_t alignment,
                                  bool slab, unsigned class, bool zero, bool guarded,
                                  bool *deferred);
void __real_je_pa_dalloc(void *thread, void *shard, struct extent *extent, bool *deferred);
void __wrap_je_pa_dalloc(void *thread, void *shard, struct extent *extent, bool *deferred);
bool __real_je_pa_expand(void *thread, void *shard, struct extent *extent, size_t before,
                         size_t after, unsigned class, bool zero, bool *deferred);
bool __wrap_je_pa_expand(void *thread, void *shard, struct extent *extent, size_t before,
                         size_t after, unsigned class, bool zero, bool *deferred);
bool __real_je_pa_shrink(void *thread, void *shard, struct extent *extent, size_t before,
                         size_t after, unsigned class, bool *deferred);
bool __wrap_je_pa_shrink(void *thread, void *shard, struct extent *extent, size_t before,
                         size_t after, unsigned class, bool *deferred);

#define LARGE ((size_t)8 << 20)

static uint64_t active;
static uint64_t large, large_most; /* of blocks of at least LARGE, now and at most */
static bool unreadable; /* another jemalloc: nothing is counted any more */

uint64_t gf_extents_active(void)
{
    return unreadable ? 0 : __atomic_load_n(&active, __ATOMIC_RELAXED);
}

static size_t size_of(const struct extent *extent)
{
    return extent->size_and_serial & ~((size_t)GF_JEMALLOC_PAGE - 1);
}

uint64_t gf_extents_missing(void)
{
    const uint64_t most = __atomic_load_n(&large_most, __ATOMIC_RELAXED);
    return most - gf_min(most, __atomic_load_n(&large, __ATOMIC_RELAXED));
}

void gf_extents_forget(void)
{
    __atomic_store_n(&large_most, __atomic_load_n(&large, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* A block of `before` bytes is one of `after` now; 0: there is none. */
static void resized(size_t before, size_t after)
{
    const uint64_t was = before >= LARGE ? before : 0, is = after >= LARGE ? after : 0;

    if (gf_likely(was == is))
        return;
    const uint64_t now = __atomic_add_fetch(&large, is - was, __ATOMIC_RELAXED);
    if (is > was && now > __atomic_load_n(&large_most, __ATOMIC_RELAXED))
        __atomic_store_n(&large_most, now, __ATOMIC_RELAXED);
}

static void freed(size_t size)
{
    if (gf_unlikely(unreadable))
        return;
    __atomic_fetch_sub(&active, size, __ATOMIC_RELAXED);
    gf_keep_freed(size);
}

struct extent *__wrap_je_pa_alloc(void *thread, void *shard, size_t size, size_t alignment,
                                  bool slab, unsigned class, bool zero, bool guarded,
                                  bool *deferred)
{
    struct extent *extent =
        __real_je_pa_alloc(thread, shard, size, alignment, slab, class, zero, guarded, deferred);

    if (gf_unlikely(!extent))
        return extent;
    if (gf_unlikely(size_of(extent) != size))
        __atomic_store_n(&unreadable, true, __ATOMIC_RELAXED);
    __atomic_fetch_add(&active, size, __ATOMIC_RELAXED);
    resized(0, size);
    if (gf_unlikely(size >= GF_TOUCH_LEAST) && !slab && !guarded && !unreadable)
        gf_touch_given(extent->start, size, size);
    return extent;
}

void __wrap_je_pa_dalloc(void *thread, void *shard, struct extent *extent, bool *deferred)
{
    const size_t size = size_of(extent);

    if (gf_unlikely(size >= GF_TOUCH_LEAST) && !unreadable) /* no slab is as large */
        gf_touch_back(extent->start, size, size);
    __real_je_pa_dalloc(thread, shard, extent, deferred);
    resized(size, 0);
    freed(size);
}

/* In place; true: it could not be done. */
bool __wrap_je_pa_expand(void *thread, void *shard, struct extent *extent, size_t before,
                         size_t after, unsigned class, bool zero, bool *deferred)
{
    if (__real_je_pa_expand(thread, shard, extent, before, after, class, zero, deferred))
        return true;
    __atomic_fetch_add(&active, after - before, __ATOMIC_RELAXED);
    resized(before, after);
    if (gf_unlikely(after >= GF_TOUCH_LEAST) && !unreadable)
        gf_touch_given((char *)extent->start + before, after - before, after);
    return false;
}

bool __wrap_je_pa_shrink(void *thread, void *shard, struct extent *extent, size_t before,
                         size_t after, unsigned class, bool *deferred)
{
    if (gf_unlikely(before >= GF_TOUCH_LEAST) && !unreadable)
        gf_touch_back((char *)extent->start + after, before - after, before);
    if (__real_je_pa_shrink(thread, shard, extent, before, after, class, deferred))
        return true;
    resized(before, after);
    freed(before - after);
    return false;
}
