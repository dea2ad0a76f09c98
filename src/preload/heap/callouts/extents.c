/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wraps the four functions (jemalloc.syms) by which jemalloc allocates and frees the pages of slabs
 * and large blocks. These functions are called about a hundred times less often than malloc and
 * free. According to jemalloc's assertions, callers of these functions hold no lock of jemalloc's
 * core. So the library may purge pages within these functions, as jemalloc itself does.
 */
#include "preload/heap/callouts/extent.h"
#include "preload/heap/pages/first_touch.h"
#include "preload/heap/pages/purge_unused.h"
#include "preload/heap/pages/page_counts.h"
#include "preload/heap/pages/retain.h"
#include "preload/heap/pages/unused.h"

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
    return gf_load_relaxed(&gf_page_counts.unknown);
}

static void count_freed(size_t size)
{
    if (gf_unlikely(sizes_unknown()))
        return;
    gf_retain_freed(size);
    gf_purge_unused_soon();
}

struct extent *__wrap_je_pa_alloc(void *thread, void *shard, size_t size, size_t alignment,
                                  bool slab, unsigned class, bool zero, bool guarded,
                                  bool *deferred)
{
    struct extent *extent =
        __real_je_pa_alloc(thread, shard, size, alignment, slab, class, zero, guarded, deferred);

    if (gf_unlikely(!extent))
        return extent;
    if (gf_unlikely(gf_extent_size(extent) != size))
        gf_store_relaxed(&gf_page_counts.unknown, true);
    gf_page_counts_large(0, size);
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
    gf_unused_freed(gf_extent_arena(extent), size);
    __real_je_pa_dalloc(thread, shard, extent, deferred);
    gf_page_counts_large(size, 0);
    count_freed(size);
}

/* Expands an extent in place. Returns true if that is impossible. */
bool __wrap_je_pa_expand(void *thread, void *shard, struct extent *extent, size_t before,
                         size_t after, unsigned class, bool zero, bool *deferred)
{
    if (__real_je_pa_expand(thread, shard, extent, before, after, class, zero, deferred))
        return true;
    gf_page_counts_large(before, after);
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
    gf_page_counts_large(before, after);
    gf_unused_freed(gf_extent_arena(extent), before - after);
    count_freed(before - after);
    return false;
}
