/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/callouts/pool.h"

#include "preload/heap/callouts/big_map.h"
#include "preload/heap/pages/budget.h"
#include "preload/heap/pages/huge.h"
#include "preload/heap/pages/lock.h"

#include <pthread.h>
#include <string.h>
#include <sys/single_threaded.h>

#define KEPT_MAX 1024

/* Protects kept and count. A fork takes it just before the lock of the range table. */
static struct gf_lock lock;
static struct gf_range kept[KEPT_MAX]; /* oldest first */
static size_t count;
static __thread bool forks; /* this thread's fork holds the lock */

static void pool_before_fork(void)
{
    if (__libc_single_threaded)
        return;
    gf_lock_take(&lock);
    forks = true;
}

static void pool_after_fork(void)
{
    if (!forks)
        return;
    forks = false;
    gf_lock_give(&lock);
}

void gf_pool_init(void)
{
    pthread_atfork(pool_before_fork, pool_after_fork, pool_after_fork);
}

/* A fork in a signal handler may have interrupted a thread that held the lock. */
bool gf_pool_in_child(void)
{
    const bool held = gf_load_relaxed(&lock.state) != 0;

    if (held)
        gf_store_relaxed(&lock.state, 0);
    return held;
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

/*
 * Returns the index of the mapping to take; `count` if there is none. Newer mappings are preferred,
 * because their pages are more likely to be in the CPU's cache.
 */
static size_t find(size_t size, size_t alignment)
{
    /* A mapping with a larger alignment cannot move to grow. */
    const bool grow = alignment <= GF_BIG_ALIGN && size >= GF_BIG_MIN;
    const size_t most = size < GF_BIG_MIN ? size + size / 4 : SIZE_MAX;
    size_t fits = count, grows = count;

    for (size_t i = count; i-- > 0;) {
        const size_t have = kept[i].size;
        if (kept[i].start & (alignment - 1) || have > most)
            continue;
        if (have >= size && (fits == count || have < kept[fits].size))
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

    if (gf_load_relaxed(&gf_budget.pool) == 0)
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
    }
    gf_lock_give(&lock);
    return found;
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
        const size_t size = kept[0].size;
        /* Mappings that have huge pages are cut at a boundary of huge pages. */
        const size_t unit = size >= GF_HUGE_MIN ? GF_HUGE_PAGE : (size_t)64 << 10;
        const size_t left = size > most ? (size - most) & ~(unit - 1) : 0;
        range = left ? cut_at(0, left) : remove_at(0);
    }
    gf_lock_give(&lock);
    if (range.size)
        gf_big_unmap(range.start, range.size);
    return range.size;
}
