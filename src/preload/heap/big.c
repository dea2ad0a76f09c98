/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/big.h"

#include "base/atomic.h"
#include "preload/heap/big_table.h"
#include "preload/heap/first_touch.h"
#include "preload/heap/jemalloc_replaced.h"
#include "preload/heap/jemalloc_sys.h"
#include "preload/heap/reclaim.h"
#include "preload/heap/slowpath.h"

/* A process may have 65530 mappings, and each block may need one. */
#define LIVE_MAX 4096
#define LARGEST ((size_t)1 << 48) /* more than the address space */
#define WASTE_MAX ((size_t)GF_JEMALLOC_PAGE * GF_JEMALLOC_PAGE)

static struct {
    bool on;
    _Atomic unsigned blocks;
    _Atomic uint64_t bytes, waste;
} live;

void gf_big_init(bool on)
{
    live.on = on;
    gf_store_relaxed(&gf_heap_untried, !on);
}

uint64_t gf_big_live(void)
{
    return gf_load_relaxed(&live.bytes);
}

static size_t round_up(size_t size, size_t unit)
{
    return (size + unit - 1) & ~(unit - 1);
}

/* Returns a new part of the table; NULL if there is no memory for one. */
static gf_big_word *new_part(void)
{
    void *const part = gf_heap_mmap(NULL, GF_BIG_PART_SIZE, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return part == MAP_FAILED ? NULL : part;
}

/* Adds the part of the table that contains the word, if it is missing. */
static gf_big_word *make_word(uintptr_t start)
{
    gf_big_word *const found = gf_big_find_word(start), *const part = found ? NULL : new_part();

    if (part && !gf_big_add_part(start, part))
        gf_heap_munmap(part, GF_BIG_PART_SIZE);
    return gf_big_find_word(start);
}

static size_t block_size(const void *block)
{
    gf_big_word *const word =
        block && gf_big_may_own(block) ? gf_big_find_word((uintptr_t)block) : NULL;

    return word ? gf_load_relaxed(word) & ~((size_t)GF_JEMALLOC_PAGE - 1) : 0;
}

/* If the kernel refuses a mapping, returns all free memory to it and tries again. */
static uintptr_t map_or_reclaim(size_t size, size_t alignment, int protection)
{
    const uintptr_t start = gf_big_map(size, alignment, protection);

    return start || !gf_reclaim_all() ? start : gf_big_map(size, alignment, protection);
}

/*
 * Grows the mapping in place, or moves its pages. Both places start at a boundary of huge pages, so
 * huge pages stay whole. The new place is reserved without access, so that mlockall does not populate
 * it. With a limit (reclaim.h), which counts both places, the kernel chooses the place. Returns the new
 * start; 0 if the mapping is unchanged, because memory is short or the program has split the mapping.
 */
static uintptr_t grow_mapping(uintptr_t start, size_t before, size_t after)
{
    const int error = gf_big_grow(start, before, after);

    if (error != ENOMEM)
        return error ? 0 : start;
    const uintptr_t to =
        gf_reclaim_is_limited() ? 0 : map_or_reclaim(after, GF_BIG_ALIGN, PROT_NONE);
    if (!to) {
        /* The kernel chooses the place. A block without a word could not move back. */
        gf_big_word *const part = new_part();
        const uintptr_t chosen = part ? gf_big_move_anywhere(start, before, after) : 0;
        if (part && !(chosen && gf_big_add_part(chosen, part)))
            gf_heap_munmap(part, GF_BIG_PART_SIZE);
        return chosen;
    }
    if (make_word(to))
        return gf_big_move(start, before, to, after) ? to : 0;
    gf_big_unmap_new(to, after);
    return 0;
}

static struct gf_range new_mapping(size_t size, size_t alignment)
{
    const struct gf_range range = {map_or_reclaim(size, alignment, PROT_READ | PROT_WRITE), size};

    if (range.start)
        gf_big_mapped(range.start, size);
    return range;
}

/*
 * Called before a block is mapped, so that kept memory and the new block do not exceed the peak. The
 * block counts only during this call: a request that the kernel refuses is no peak.
 */
static void make_room(size_t size)
{
    gf_add_relaxed(&gf_budget.live, (int64_t)size);
    gf_reclaim_check(gf_reclaim_mappings);
    gf_sub_relaxed(&gf_budget.live, (int64_t)size);
}

/* Grows a mapping of the pool. If that is impossible, the mapping returns to the pool, beside the new block. */
static bool grow_kept(struct gf_range *range, size_t size)
{
    const uintptr_t start = grow_mapping(range->start, range->size, size);

    if (start) {
        *range = (struct gf_range){start, size};
    } else {
        gf_pool_put(range->start, range->size);
        make_room(size);
    }
    return start;
}

/* Whether a block may keep pages that it does not need: the next block is likely to need them. */
static bool may_waste(size_t size, size_t waste)
{
    return waste <= size / 4 && waste < WASTE_MAX &&
           (int64_t)(gf_load_relaxed(&live.waste) + waste) <= gf_load_relaxed(&gf_budget.start) / 2;
}

static void cut_kept(struct gf_range *range, size_t size)
{
    if (range->size == size || may_waste(size, range->size - size))
        return;
    gf_big_unmap(range->start + size, range->size - size);
    range->size = size;
}

/* Bytes of the block that its caller did not request. The word counts them in pages. */
static size_t waste_of(const gf_big_word *word)
{
    return gf_load_relaxed(word) % GF_JEMALLOC_PAGE * GF_JEMALLOC_PAGE;
}

static void set_word(gf_big_word *word, size_t size, size_t waste)
{
    gf_add_relaxed(&live.waste, waste - waste_of(word));
    gf_store_relaxed(word, size + waste / GF_JEMALLOC_PAGE);
}

static void count_live(size_t before, size_t after)
{
    if (after > before)
        gf_budget_used(&gf_budget, after - before);
    else
        gf_budget_unused(&gf_budget, before - after);
    gf_add_relaxed(&live.bytes, after - before);
}

static void *alloc(size_t size, size_t alignment, bool zero)
{
    struct gf_range range;
    bool used = gf_pool_take(size, alignment, &range);

    if (!used && size < GF_BIG_MIN)
        return NULL;
    make_room(size);
    if (used && range.size < size)
        used = grow_kept(&range, size);
    else if (used)
        cut_kept(&range, size);
    if (!used)
        range = new_mapping(size, alignment);
    gf_big_word *const word = range.start ? make_word(range.start) : NULL;
    if (!word) {
        if (range.start)
            gf_pool_put(range.start, range.size);
        return NULL;
    }
    if (zero && used)
        gf_overrides_zero((void *)range.start, range.size);
    count_live(0, range.size);
    set_word(word, range.size, range.size - size);
    gf_pool_lives(range.start, range.size);
    gf_first_touch_allocated((void *)range.start, range.size, range.size);
    return (void *)range.start;
}

void *gf_big_alloc(size_t size, size_t alignment, bool zero)
{
    if (!live.on || size > LARGEST || alignment > LARGEST)
        return NULL;
    if (gf_add_relaxed(&live.blocks, 1) < LIVE_MAX) {
        const int error = errno;
        void *const block =
            alloc(round_up(size, GF_JEMALLOC_PAGE), gf_max(alignment, GF_BIG_ALIGN), zero);
        errno = error;
        if (block)
            return block;
    } else {
        gf_store_relaxed(&gf_heap_untried, true);
    }
    gf_sub_relaxed(&live.blocks, 1);
    return NULL;
}

void *gf_big_aligned(size_t alignment, size_t size)
{
    const bool framed = gf_slowpath_enter(gf_slowpath_memalign, size, 0);
    void *const block = gf_big_alloc(size, alignment, false);

    if (framed)
        gf_slowpath_leave(block);
    return block;
}

static void free_block(gf_big_word *word, uintptr_t start, size_t size)
{
    gf_first_touch_freed((void *)start, size, size);
    set_word(word, 0, 0);
    gf_sub_relaxed(&live.blocks, 1);
    count_live(size, 0);
    gf_budget_freed_block(&gf_budget, size);
    if (gf_big_renew(start, size))
        gf_pool_put(start, size);
    else
        gf_big_unmap(start, size);
    gf_reclaim_check(gf_reclaim_mappings);
}

void gf_big_free(void *block)
{
    const size_t size = block_size(block);

    if (!size) {
        je_free(block);
        return;
    }
    gf_keep_errno();
    const bool framed = gf_slowpath_enter(gf_slowpath_free, 0, 0);
    free_block(gf_big_find_word((uintptr_t)block), (uintptr_t)block, size);
    if (framed)
        gf_slowpath_leave(NULL);
}

size_t gf_big_usable_size(const void *block)
{
    const size_t size = block_size(block);

    return size ? size - waste_of(gf_big_find_word((uintptr_t)block))
                : je_malloc_usable_size(block);
}

static void *shrink(void *block, size_t before, size_t after)
{
    const uintptr_t start = (uintptr_t)block;

    if (after == before)
        return block;
    count_live(before, after);
    set_word(gf_big_find_word(start), after, 0);
    gf_first_touch_freed((void *)(start + after), before - after, before);
    gf_big_unmap(start + after, before - after);
    return block;
}

/* Without memory for a copy, a block that becomes smaller stays in the store. */
static void *copy_block(void *block, size_t before, size_t size)
{
    void *const copy = je_malloc(size);

    if (!copy)
        return size < before ? shrink(block, before, round_up(size, GF_JEMALLOC_PAGE)) : NULL;
    memcpy(copy, block, gf_min(before, size));
    gf_big_free(block);
    return copy;
}

/*
 * Changes the size of a block of the store. Returns NULL if that is impossible without a copy. If the program has
 * changed the pages that it requested, the others are returned, so that it has changed the whole mapping.
 */
static void *resize(void *block, size_t before, size_t after)
{
    const uintptr_t start = (uintptr_t)block;
    gf_big_word *const word = gf_big_find_word(start);
    const size_t waste = waste_of(word);

    if (waste && after > before - waste && gf_big_is_split(start, before)) {
        shrink(block, before, before - waste);
        before -= waste;
    }
    if (after <= before && !may_waste(after, before - after))
        return shrink(block, before, after);
    if (after <= before) {
        set_word(word, before, before - after);
        return block;
    }
    make_room(after - before);
    /* The word is removed first, because another thread may get the old addresses. */
    set_word(word, 0, 0);
    const uintptr_t to = grow_mapping(start, before, after);
    set_word(gf_big_find_word(to ? to : start), to ? after : before, 0);
    if (to) {
        gf_pool_lives(to, after);
        count_live(before, after);
        gf_first_touch_allocated((void *)(to + before), after - before, after);
        gf_reclaim_check(gf_reclaim_mappings);
    }
    return (void *)to;
}

static void *realloc_block(void *block, size_t before, size_t size)
{
    void *const same = size >= GF_BIG_MIN && size <= LARGEST
                           ? resize(block, before, round_up(size, GF_JEMALLOC_PAGE))
                           : NULL;

    return same ? same : copy_block(block, block_size(block), size);
}

/* The block is jemalloc's, and has `before` bytes. Returns NULL if jemalloc must do it. */
static void *move_to_store(void *block, size_t before, size_t size)
{
    void *const copy = before < size ? gf_big_alloc(size, GF_BIG_ALIGN, false) : NULL;

    if (copy) {
        memcpy(copy, block, before);
        je_free(block);
    }
    return copy;
}

static void *realloc_any(void *block, size_t before, size_t old, size_t size)
{
    if (before && size == 0) {
        gf_big_free(block);
        return NULL;
    }
    if (before)
        return realloc_block(block, before, size);
    void *const moved = block && size >= GF_BIG_MIN ? move_to_store(block, old, size) : NULL;
    return moved ? moved : je_realloc(block, size);
}

void *gf_big_realloc(void *block, size_t size)
{
    const int error = errno;
    const size_t before = block_size(block), old = block ? gf_big_usable_size(block) : 0;
    const size_t copied = before && size >= GF_BIG_MIN ? 0 : gf_min(old, size);
    const bool framed = gf_slowpath_enter(gf_slowpath_realloc, size, copied);
    void *const ret = realloc_any(block, before, old, size);

    if (framed)
        gf_slowpath_leave(ret);
    errno = ret || !size ? error : ENOMEM;
    return ret;
}
