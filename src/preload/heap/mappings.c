/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/mappings.h"

#include "os/permit.h"

#include <linux/futex.h>
#include <linux/mempolicy.h>

static uintptr_t range_end(const struct gf_range *range)
{
    return range->start + range->size;
}

/* Returns the index of the first range that ends at or after `address`. */
static size_t first_range_reaching(const struct gf_ranges *ranges, uintptr_t address)
{
    size_t low = 0, high = ranges->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (range_end(&ranges->at[middle]) < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void replace_entries(struct gf_ranges *ranges, size_t first, size_t last,
                            const struct gf_range *with, size_t count)
{
    for (size_t i = first; i < last; i++)
        ranges->bytes -= ranges->at[i].size;
    memmove(&ranges->at[first + count], &ranges->at[last],
            (ranges->count - last) * sizeof(ranges->at[0]));
    for (size_t i = 0; i < count; i++) {
        ranges->at[first + i] = with[i];
        ranges->bytes += with[i].size;
    }
    ranges->count = ranges->count - (last - first) + count;
}

void gf_ranges_add(struct gf_ranges *ranges, uintptr_t start, size_t size)
{
    uintptr_t end = start + size;
    const size_t first = first_range_reaching(ranges, start);
    size_t last = first;

    for (; last < ranges->count && ranges->at[last].start <= end; last++) {
        start = gf_min(start, ranges->at[last].start);
        end = gf_max(end, range_end(&ranges->at[last]));
    }
    if (last == first && ranges->count == GF_RANGES_MAX) {
        ranges->overflowed = true;
        return;
    }
    replace_entries(ranges, first, last, &(struct gf_range){start, end - start}, 1);
}

void gf_ranges_remove(struct gf_ranges *ranges, uintptr_t start, size_t size)
{
    const uintptr_t end = start + size;
    struct gf_range rest[2] = {0};
    size_t left = 0;
    size_t first = first_range_reaching(ranges, start);

    if (first < ranges->count && range_end(&ranges->at[first]) == start)
        first++; /* this range ends where the removed one starts */
    size_t last = first;
    for (; last < ranges->count && ranges->at[last].start < end; last++) {
        const struct gf_range *range = &ranges->at[last];
        if (range->start < start)
            rest[left++] = (struct gf_range){range->start, start - range->start};
        if (range_end(range) > end)
            rest[left++] = (struct gf_range){end, range_end(range) - end};
    }
    if (last == first)
        return;
    if (ranges->count - (last - first) + left > GF_RANGES_MAX) {
        ranges->overflowed = true;
        left--;
    }
    replace_entries(ranges, first, last, rest, left);
}

__thread volatile unsigned gf_locks;
__thread bool gf_strict;

enum { lock_free, lock_held, lock_wanted };

static GF_COLD void wait_for_lock(struct gf_lock *lock)
{
    gf_keep_errno();

    while (gf_exchange_acquire(&lock->state, lock_wanted) != lock_free)
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, lock_wanted, NULL);
}

void gf_lock_take(struct gf_lock *lock)
{
    unsigned expected = lock_free;

    gf_locks++;
    if (gf_unlikely(!gf_cas_acquire(&lock->state, &expected, lock_held)))
        wait_for_lock(lock);
}

void gf_lock_give(struct gf_lock *lock)
{
    if (gf_unlikely(atomic_exchange_explicit(&lock->state, lock_free, memory_order_release) ==
                    lock_wanted)) {
        gf_keep_errno();
        syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1);
    }
    gf_locks--;
}

static struct gf_ranges ranges;
static _Atomic uint64_t bytes; /* the same as ranges.bytes, for readers without the lock */

static struct {
    _Atomic int policy; /* 0 for no policy */
    struct gf_nodes nodes;
} wanted;

static _Atomic uint64_t refused;

static struct gf_lock lock; /* protects `ranges` and `wanted` */

void gf_mappings_lock(void)
{
    gf_lock_take(&lock);
}

void gf_mappings_unlock(void)
{
    gf_lock_give(&lock);
}

void gf_mappings_add(uintptr_t start, size_t size)
{
    gf_mappings_lock();
    gf_ranges_add(&ranges, start, size);
    gf_store_relaxed(&bytes, ranges.bytes);
    gf_mappings_unlock();
}

void gf_mappings_remove(uintptr_t start, size_t size)
{
    gf_mappings_lock();
    gf_ranges_remove(&ranges, start, size);
    gf_store_relaxed(&bytes, ranges.bytes);
    gf_mappings_unlock();
}

bool gf_mappings_crowded_by_hole(uintptr_t start, size_t size)
{
    gf_mappings_lock();
    const struct gf_range *const range = &ranges.at[first_range_reaching(&ranges, start + 1)];
    const bool crowded = ranges.count >= GF_RANGES_MAX / 2 && range < &ranges.at[ranges.count] &&
                         range->start < start && range_end(range) > start + size;
    gf_mappings_unlock();
    return crowded;
}

uint64_t gf_mappings_bytes(void)
{
    return gf_load_relaxed(&bytes);
}

bool gf_mappings_at(size_t i, struct gf_range *ret)
{
    gf_mappings_lock();
    const bool there = i < ranges.count;
    if (there)
        *ret = ranges.at[i];
    gf_mappings_unlock();
    return there;
}

size_t gf_mappings_ranges(struct gf_range *ret, size_t cap)
{
    gf_mappings_lock();
    const size_t count = ranges.overflowed ? SIZE_MAX : ranges.count;
    for (size_t i = 0; i < cap; i++)
        ret[i] = i < ranges.count ? ranges.at[i] : (struct gf_range){0, 0};
    gf_mappings_unlock();
    return count;
}

static bool try_mapping(size_t size, int protection, int flags)
{
    gf_keep_errno();
    const long mapped = syscall(SYS_mmap, NULL, size, protection, MAP_ANONYMOUS | flags, -1, 0L);

    if (mapped != -1)
        syscall(SYS_munmap, mapped, size);
    return mapped != -1;
}

/*
 * The kernel counts a shared mapping as used memory although it may not be accessed. So it has no
 * pages even after mlockall(MCL_FUTURE), which populates new mappings. A seccomp filter may allow
 * only the flags that other allocators use.
 */
bool gf_mappings_fit(size_t size)
{
    return gf_permit_sealed() ? gf_mappings_fit_writable(size)
                              : try_mapping(size, PROT_NONE, MAP_SHARED);
}

bool gf_mappings_fit_writable(size_t size)
{
    return try_mapping(size, PROT_READ | PROT_WRITE, MAP_PRIVATE);
}

void gf_mappings_set_node(int policy, const struct gf_nodes *nodes)
{
    gf_mappings_lock();
    gf_store_relaxed(&wanted.policy, policy);
    if (policy)
        wanted.nodes = *nodes;
    gf_mappings_unlock();
}

void gf_mappings_apply_policy(void *start, size_t size)
{
    struct gf_nodes nodes;

    if (gf_likely(gf_load_relaxed(&wanted.policy) == 0) || !gf_permit(gf_permit_mbind))
        return;
    gf_mappings_lock();
    const int policy = gf_load_relaxed(&wanted.policy);
    nodes = wanted.nodes;
    gf_mappings_unlock();
    if (policy == 0)
        return;
    /*
     * The kernel reads one bit less than maxnode (get_nodes in mm/mempolicy.c), so one more than
     * the number of bits is passed.
     */
    if (syscall(SYS_mbind, start, size, policy, nodes.word, GF_NODES_MAX + 1UL, 0UL) != 0)
        gf_add_relaxed(&refused, 1);
}

void gf_mappings_renew_policy(void *start, size_t size)
{
    if (gf_load_relaxed(&wanted.policy))
        gf_mappings_apply_policy(start, size);
    else if (gf_permit(gf_permit_mbind))
        syscall(SYS_mbind, start, size, MPOL_DEFAULT, NULL, 0UL, 0UL);
}

uint64_t gf_mappings_refused(void)
{
    return gf_load_relaxed(&refused);
}
