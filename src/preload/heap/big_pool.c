/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/big_pool.h"

#include "os/permit.h"
#include "preload/heap/budget.h"
#include "preload/heap/first_touch.h"
#include "preload/heap/jemalloc_sys.h"
#include "preload/heap/mappings.h"
#include "preload/heap/slowpath.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/single_threaded.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* The kernel grants a mapping with MAP_NORESERVE even if it exceeds all memory. */
static bool fits(size_t size)
{
    return gf_likely(size < GF_MAPPINGS_ASKED_MIN) || gf_mappings_fit(size);
}

/* Returns 0 if the kernel refuses. */
static uintptr_t map(uintptr_t at, size_t size, int protection, int flags)
{
    const long mapped = syscall(SYS_mmap, at, size, protection,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0L);

    return mapped == -1 ? 0 : (uintptr_t)mapped;
}

void gf_big_unmap_new(uintptr_t start, size_t size)
{
    syscall(SYS_munmap, start, size);
}

/* Maps more than needed, and unmaps the rest. */
static uintptr_t map_and_cut(size_t size, size_t alignment, int protection)
{
    const uintptr_t first = map(0, size + alignment, protection, 0);
    const uintptr_t start = (first + alignment - 1) & ~(alignment - 1);

    if (!first)
        return 0;
    if (start > first)
        gf_big_unmap_new(first, start - first);
    if (start < first + alignment)
        gf_big_unmap_new(start + size, first + alignment - start);
    return start;
}

/*
 * If the kernel chooses an unaligned address, the next multiple below is usually free, because the
 * kernel maps downwards.
 */
static uintptr_t map_aligned(size_t size, size_t alignment, int protection)
{
    uintptr_t mapped = map(0, size, protection, 0);
    const uintptr_t below = mapped & ~(alignment - 1);

    if (mapped == below)
        return mapped;
    gf_big_unmap_new(mapped, size);
    mapped = below ? map(below, size, protection, MAP_FIXED_NOREPLACE) : 0;
    if (mapped && mapped == below)
        return below;
    if (mapped)
        gf_big_unmap_new(mapped, size);
    return map_and_cut(size, alignment, protection);
}

uintptr_t gf_big_map(size_t size, size_t alignment, int protection)
{
    const struct gf_slowpath_mark mark = gf_slowpath_begin(gf_slowpath_map);
    const uintptr_t start = fits(size) ? map_aligned(size, alignment, protection) : 0;

    gf_slowpath_end(&mark, gf_slowpath_map, size);
    return start;
}

void gf_big_mapped(uintptr_t start, size_t size)
{
    const struct gf_slowpath_mark mark = gf_slowpath_begin(gf_slowpath_map);

    gf_mappings_add(start, size);
    gf_mappings_apply_policy((void *)start, size);
    gf_huge_mapped((void *)start, size);
    gf_slowpath_end(&mark, gf_slowpath_map, 0);
}

/*
 * Whether the program has mapped a file or shared memory over a part of the range, or memory that the kernel may drop
 * (MAP_DROPPABLE). The kernel refuses MADV_WIPEONFORK for the first two, but not the advice that revokes it (Linux
 * 4.14); for the last, it refuses only the latter. If the process has too many mappings to split one, the kernel does
 * not look; MADV_FREE splits none.
 */
static bool is_foreign(uintptr_t start, size_t size)
{
    const bool refused = syscall(SYS_madvise, start, size, MADV_WIPEONFORK) == -1 &&
                         (errno == EINVAL || syscall(SYS_madvise, start, size, MADV_FREE) == -1);

    return (syscall(SYS_madvise, start, size, MADV_KEEPONFORK) == 0) == refused;
}

bool gf_big_is_split(uintptr_t start, size_t size)
{
    if (gf_permit_sealed())
        return false;
    if (syscall(SYS_mremap, start, size, size + GF_JEMALLOC_PAGE, 0, 0UL) == -1)
        return errno == EFAULT;
    gf_big_unmap_new(start + size, GF_JEMALLOC_PAGE);
    return false;
}

/*
 * Grown memory is of the block's mapping. If the program has mapped a file or shared memory over the whole block, the
 * new pages lie beyond its end, and the block is copied, as in glibc. MADV_FREE, which such memory refuses,
 * changes no new page. Locked pages refuse it, too.
 */
static void replace_foreign(uintptr_t start, size_t before, size_t after)
{
    const uintptr_t more = start + before;

    if (syscall(SYS_madvise, more, after - before, MADV_FREE) == 0)
        return;
    if (syscall(SYS_madvise, more, after - before, MADV_WIPEONFORK) == 0) {
        /* The block did not have this flag. */
        if (gf_big_is_split(start, after))
            syscall(SYS_madvise, more, after - before, MADV_KEEPONFORK);
        return;
    }
    const uintptr_t copy = map(0, after, PROT_READ | PROT_WRITE, 0);
    if (!copy)
        return;
    memcpy((void *)copy, (const void *)start, before);
    gf_monitored_mremap((void *)copy, after, after, (void *)start);
    gf_mappings_apply_policy((void *)start, after);
}

/* The kernel adds 0 to the first bytes. */
static bool is_writable(uintptr_t start)
{
    const uint32_t none = 0;

    return syscall(SYS_futex, &none, FUTEX_WAKE_OP_PRIVATE, 0, NULL, start,
                   FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)) != -1;
}

/*
 * As in glibc, MADV_DONTDUMP and MADV_WIPEONFORK, which keep secrets, and PROT_EXEC stay. A filter of the program's
 * (os/permit.h) may forbid these calls.
 */
static void make_plain(uintptr_t start, size_t before, size_t after)
{
    if (gf_permit_sealed())
        return;
    syscall(SYS_madvise, start, after, MADV_DOFORK);
    if (!is_writable(start) &&
        syscall(SYS_pkey_mprotect, start, after, PROT_READ | PROT_WRITE, 0) != 0)
        syscall(SYS_mprotect, start, after, PROT_READ | PROT_WRITE); /* no protection keys */
    replace_foreign(start, before, after);
}

/* The new pages have the memory policy of the old ones, because they are in the same mapping. */
static void grown(uintptr_t start, size_t before, size_t after)
{
    gf_mappings_add(start, after);
    make_plain(start, before, after);
    gf_huge_grown((void *)start, before, after);
}

int gf_big_grow(uintptr_t start, size_t before, size_t after)
{
    const struct gf_slowpath_mark mark = gf_slowpath_begin(gf_slowpath_map);
    int error = ENOMEM;

    if (fits(after - before)) {
        error = syscall(SYS_mremap, start, before, after, 0, 0UL) == -1 ? errno : 0;
        if (error == 0)
            grown(start, before, after);
    }
    gf_slowpath_end(&mark, gf_slowpath_map, error ? 0 : after - before);
    return error;
}

bool gf_big_move(uintptr_t start, size_t before, uintptr_t to, size_t after)
{
    const struct gf_slowpath_mark mark = gf_slowpath_begin(gf_slowpath_map);

    /* Removed first, because after the call another thread can map the old addresses. */
    gf_mappings_remove(start, before);
    const bool moved = gf_monitored_mremap((void *)start, before, after, (void *)to) != MAP_FAILED;
    if (moved)
        grown(to, before, after);
    else
        gf_mappings_add(start, before);
    gf_slowpath_end(&mark, gf_slowpath_map, before);
    return moved;
}

uintptr_t gf_big_move_anywhere(uintptr_t start, size_t before, size_t after)
{
    const struct gf_slowpath_mark mark = gf_slowpath_begin(gf_slowpath_map);
    /* If the size is a multiple of a huge page, Linux 6.7 and later choose an aligned address. */
    const size_t size = ((after + GF_HUGE_PAGE - 1) & ~(GF_HUGE_PAGE - 1)) + GF_HUGE_PAGE;
    uintptr_t to = 0;

    gf_mappings_remove(start, before);
    void *const moved =
        fits(after - before) ? gf_monitored_mremap((void *)start, before, size, NULL) : MAP_FAILED;
    if (moved == MAP_FAILED) {
        gf_mappings_add(start, before);
    } else {
        const uintptr_t at = (uintptr_t)moved;
        to = (at + GF_HUGE_PAGE - 1) & ~(GF_HUGE_PAGE - 1);
        if (to > at) {
            make_plain(at, before, size); /* memmove must not write to the program's file */
            memmove((void *)to, moved, before);
            gf_big_unmap_new(at, to - at);
        }
        gf_big_unmap_new(to + after, at + size - to - after);
        grown(to, before, after);
    }
    gf_slowpath_end(&mark, gf_slowpath_map, before);
    return to;
}

/* For private memory, msync has no other effect than this check. */
static bool is_locked(uintptr_t start, size_t size)
{
    return gf_presence_allowed() && gf_permit(gf_permit_msync) &&
           syscall(SYS_msync, start, size, MS_INVALIDATE) == -1 && errno == EBUSY;
}

/*
 * The program's filter (os/permit.h) may forbid these calls, so a sealed process keeps nothing. In strict mode, the
 * kernel kills the thread also for munmap.
 */
bool gf_big_renew(uintptr_t start, size_t size)
{
    if (gf_strict)
        return true;
    if (gf_permit_sealed() || is_locked(start, size) || is_foreign(start, size) ||
        syscall(SYS_mprotect, start, size, PROT_READ | PROT_WRITE) != 0)
        return false;
    syscall(SYS_madvise, start, size, MADV_DOFORK);
    syscall(SYS_madvise, start, size, MADV_DODUMP);
    if (gf_presence_allowed())
        gf_mappings_renew_policy((void *)start, size);
    return true;
}

void gf_big_unmap(uintptr_t start, size_t size)
{
    if (gf_strict)
        return;
    /* munmap fails if it splits a mapping and the process has as many as the kernel allows. */
    if (gf_heap_munmap((void *)start, size) != 0)
        gf_heap_madvise((void *)start, size, MADV_DONTNEED);
}

#define KEPT_MAX 1024

static struct gf_lock lock;            /* protects kept and count */
static struct gf_range kept[KEPT_MAX]; /* oldest first */
static size_t count;
static _Atomic uintptr_t bottom = UINTPTR_MAX; /* no block of lowest_live is below this address */
static __thread bool forks; /* this thread's fork holds the lock and that of the range table */

/*
 * In a process with one thread, a fork takes no lock, because a write to a lock would copy its page in
 * each child.
 */
static void pool_before_fork(void)
{
    if (__libc_single_threaded)
        return;
    gf_lock_take(&lock);
    gf_mappings_lock();
    forks = true;
}

static void pool_after_fork(void)
{
    if (!forks)
        return;
    forks = false;
    gf_mappings_unlock();
    gf_lock_give(&lock);
}

void gf_pool_init(void)
{
    pthread_atfork(pool_before_fork, pool_after_fork, pool_after_fork);
}

/* A fork in a signal handler may have interrupted a thread that held the lock. */
void gf_pool_in_child(void)
{
    if (gf_load_relaxed(&lock.state) != 0)
        gf_store_relaxed(&lock.state, 0);
}

/* The caller of the functions up to the next one without `static` holds the lock. */
static struct gf_range remove_at(size_t i)
{
    const struct gf_range range = kept[i];

    count--;
    memmove(&kept[i], &kept[i + 1], (count - i) * sizeof(kept[0]));
    gf_sub_relaxed(&gf_budget.pool, (int64_t)range.size);
    return range;
}

/* Removes the bytes of the mapping from `left` on, and returns them. */
static struct gf_range cut_at(size_t i, size_t left)
{
    const struct gf_range tail = {kept[i].start + left, kept[i].size - left};

    kept[i].size = left;
    gf_sub_relaxed(&gf_budget.pool, (int64_t)tail.size);
    return tail;
}

static void insert_at(size_t i, struct gf_range range)
{
    memmove(&kept[i + 1], &kept[i], (count - i) * sizeof(kept[0]));
    kept[i] = range;
    count++;
    gf_add_relaxed(&gf_budget.pool, (int64_t)range.size);
}

void gf_pool_lives(uintptr_t start, size_t size)
{
    uintptr_t before = gf_load_relaxed(&bottom);

    while (gf_unlikely(start < before) && size <= GF_BUDGET_MAPPED_MAX &&
           !gf_cas_weak_relaxed(&bottom, &before, start))
        ;
}

/* The lowest address of a live block that glibc would not map on its own; `end` if none is below that. */
static uintptr_t lowest_live(uintptr_t end)
{
    uintptr_t first = gf_load_relaxed(&bottom), at = first;

    for (size_t step; at < end; at += step) {
        const gf_big_word *const word = gf_big_find_word(at);
        const size_t size = word ? gf_load_relaxed(word) & ~((size_t)GF_JEMALLOC_PAGE - 1) : 0;
        if (size && size <= GF_BUDGET_MAPPED_MAX)
            break;
        step = !word ? GF_BIG_PART_SPAN - at % GF_BIG_PART_SPAN
                     : (gf_max(size, 1) + GF_BIG_ALIGN - 1) & ~(GF_BIG_ALIGN - 1);
    }
    gf_cas_relaxed(&bottom, &first, at);
    return at;
}

/*
 * The kernel maps downwards, so a live block below a kept mapping is what a live block above a free one is in
 * glibc's heap, which grows upwards: glibc cannot return the free one. Where the kernel maps upwards
 * (ADDR_COMPAT_LAYOUT), blocks lie above this library, and no hole is known.
 */
static bool is_hole(const struct gf_range *range, uintptr_t lowest)
{
    return range->start > lowest && range->start < (uintptr_t)kept &&
           range->size <= GF_BUDGET_MAPPED_MAX;
}

/* Counts the holes, if the budget depends on them. Returns the lowest live block. */
static uintptr_t count_holes(void)
{
    uintptr_t highest = 0;
    int64_t holes = 0;

    for (size_t i = 0; gf_budget_counts_holes(&gf_budget) && i < count; i++)
        highest = gf_max(highest, kept[i].start);
    const uintptr_t lowest = highest ? lowest_live(highest) : UINTPTR_MAX;
    for (size_t i = 0; highest && i < count; i++)
        holes += is_hole(&kept[i], lowest) ? (int64_t)kept[i].size : 0;
    gf_store_relaxed(&gf_budget.holes, holes);
    return lowest;
}

/*
 * Returns the index of the mapping to take; `count` if no mapping fits. Of equal ones, the highest is preferred, so
 * that the lowest ones are not in use, as in glibc's heap.
 */
static size_t find(size_t size, size_t alignment)
{
    /* A mapping with a larger alignment cannot move to grow. A filter may forbid mremap. */
    const bool grow = alignment <= GF_BIG_ALIGN && size >= GF_BIG_MIN && !gf_permit_sealed();
    const size_t most = size < GF_BIG_MIN ? size + size / 4 : SIZE_MAX;
    size_t fits = count, grows = count;

    for (size_t i = count; i-- > 0;) {
        const size_t have = kept[i].size;
        if (kept[i].start & (alignment - 1) || have > most)
            continue;
        if (have >= size && (fits == count || have < kept[fits].size ||
                             (have == kept[fits].size && kept[i].start > kept[fits].start)))
            fits = i;
        else if (grow && have < size && have >= size / 2 &&
                 (grows == count || have > kept[grows].size))
            grows = i;
    }
    return fits < count ? fits : grows;
}

bool gf_pool_take(size_t size, size_t alignment, struct gf_range *ret)
{
    const size_t whole = (size + GF_BIG_ALIGN - 1) & ~(GF_BIG_ALIGN - 1);

    /* A mapping that grows to `size` would be tried only for the pages that it lacks. */
    if (gf_load_relaxed(&gf_budget.pool) == 0 || !fits(size))
        return false;
    gf_lock_take(&lock);
    const size_t i = find(size, alignment);
    const bool found = i < count;
    if (found) {
        *ret = remove_at(i);
        if (ret->size >= whole + GF_BIG_ALIGN) {
            insert_at(i, (struct gf_range){ret->start + whole, ret->size - whole});
            ret->size = whole;
        }
        count_holes();
    }
    gf_lock_give(&lock);
    return found;
}

void gf_pool_count(void)
{
    gf_lock_take(&lock);
    count_holes();
    gf_lock_give(&lock);
}

void gf_pool_put(uintptr_t start, size_t size)
{
    struct gf_range oldest = {0, 0};

    gf_lock_take(&lock);
    if (count == KEPT_MAX)
        oldest = remove_at(0);
    insert_at(count, (struct gf_range){start, size});
    gf_lock_give(&lock);
    if (oldest.size)
        gf_big_unmap(oldest.start, oldest.size);
}

size_t gf_pool_drop(uint64_t most)
{
    struct gf_range range = {0, 0};

    if (gf_load_relaxed(&gf_budget.pool) == 0)
        return 0;
    gf_lock_take(&lock);
    if (count) {
        const uintptr_t lowest = count_holes();
        size_t i = 0;
        while (i < count && is_hole(&kept[i], lowest))
            i++;
        i = i < count ? i : 0;
        const size_t size = kept[i].size;
        /* Mappings that have huge pages are cut at a boundary of huge pages. */
        const size_t unit = size >= GF_HUGE_MIN ? GF_HUGE_PAGE : (size_t)64 << 10;
        const size_t left = size > most ? (size - most) & ~(unit - 1) : 0;
        range = left ? cut_at(i, left) : remove_at(i);
        count_holes();
    }
    gf_lock_give(&lock);
    if (range.size)
        gf_big_unmap(range.start, range.size);
    return range.size;
}
