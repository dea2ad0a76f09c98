/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wraps the four functions (jemalloc.syms) by which jemalloc allocates and frees the pages of slabs
 * and large blocks. These functions are called about a hundred times less often than malloc and
 * free. According to jemalloc's assertions, callers of these functions hold no lock of jemalloc's
 * core. So the library may purge pages within these functions, as jemalloc itself does.
 */
#include "preload/heap/callouts/evict.h"
#include "preload/heap/callouts/reclaim.h"
#include "preload/heap/pages/first_touch.h"

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
struct extent *__wrap_je_pa_alloc(void *thread, void *shard, size_t size, size_t alignment,
                                  bool slab, unsigned class, bool zero, bool guarded,
                                  bool *deferred)
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

void __wrap_je_pa_dalloc(void *thread, void *shard, struct extent *extent, bool *deferred)
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
bool __wrap_je_pa_expand(void *thread, void *shard, struct extent *extent, size_t before,
                         size_t after, unsigned class, bool zero, bool *deferred)
{
    if (__real_je_pa_expand(thread, shard, extent, before, after, class, zero, deferred))
        return true;
    count_used(after - before);
    if (gf_unlikely(after >= GF_FIRST_TOUCH_MIN) && !sizes_unknown())
        gf_first_touch_allocated((char *)extent->start + before, after - before, after);
    return false;
}

bool __wrap_je_pa_shrink(void *thread, void *shard, struct extent *extent, size_t before,
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
