/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/cause.h"

#include "base/atomic.h"
#include "base/fmt.h"

#define PAGE 4096
#define HUGE_PAGE ((uint64_t)2 << 20)

struct sums {
    /* The duration of the call, and the part of it in which the thread was off the CPU. */
    uint64_t total_us, idle_us;
    uint64_t part_us[GF_SLOWPATH_PARTS], work_us;
};

static void add_up(const struct gf_evidence *evidence, struct sums *ret)
{
    const struct gf_slowpath *slow = evidence->slow;
    uint64_t parts = 0;

    ret->total_us = (slow->end_ns - slow->start_ns) / 1000;
    for (unsigned i = 0; i < GF_SLOWPATH_PARTS; i++) {
        ret->part_us[i] = slow->part_ns[i] / 1000;
        parts += ret->part_us[i];
    }
    ret->work_us = ret->total_us - gf_min(parts, ret->total_us);
    ret->idle_us =
        evidence->used.known ? ret->total_us - gf_min(evidence->used.cpu_us, ret->total_us) : 0;
}

#define SET_CAUSE(found, ...)                                                                      \
    do {                                                                                           \
        ret->cause = gf_cause_##found;                                                             \
        gf_fmt(ret->text, sizeof(ret->text), __VA_ARGS__);                                         \
    } while (0)

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static bool is_half(uint64_t part, const struct sums *sums)
{
    return part * 2 >= sums->total_us;
}

/* Sets the cause of a call during which the thread was runnable, but not on a CPU. */
static void find_preempted(const struct gf_evidence *evidence, const struct sums *sums,
                           struct gf_finding *ret)
{
    const uint64_t throttled = evidence->pressure.throttled_us;

    if (throttled && throttled * 2 >= sums->idle_us)
        SET_CAUSE(throttled,
                  "off the CPU for %lu us; the cgroup's CPU quota throttled the thread "
                  "for %lu us",
                  sums->idle_us, throttled);
    else if (evidence->throttled_before_us && evidence->throttled_before_us * 2 >= sums->idle_us)
        SET_CAUSE(preempted,
                  "off the CPU for %lu us: another thread ran, or the cgroup's CPU quota "
                  "throttled this thread",
                  sums->idle_us);
    else
        SET_CAUSE(preempted, "off the CPU for %lu us: another thread ran", sums->idle_us);
}

/*
 * Returns true if the cgroup waited for memory for at least half of the call. If the duration of
 * these waits is unknown, returns true if the cgroup met its limit. If the thread was mostly on a
 * CPU, it is then enough that the kernel reclaimed memory anywhere on the machine. Such reclaim
 * does not explain why a thread was blocked.
 */
static bool find_reclaim(const struct gf_evidence *evidence, const struct sums *sums,
                         struct gf_finding *ret)
{
    const struct gf_pressure_counters *pressure = &evidence->pressure;
    const uint64_t limits = pressure->high + pressure->max;

    if (pressure->waits_known
            ? !is_half(pressure->waited_us, sums)
            : !pressure->high && !pressure->max && (ret->may_be_pause || !pressure->reclaims))
        return false;
    if (pressure->waits_known)
        SET_CAUSE(reclaim, "the cgroup waited for memory for %lu us and met its limit %lu time%s",
                  pressure->waited_us, limits, plural(limits));
    else
        SET_CAUSE(reclaim,
                  "the kernel reclaimed memory %lu time%s; the cgroup met its limit %lu time%s",
                  pressure->reclaims, plural(pressure->reclaims), limits, plural(limits));
    return true;
}

/*
 * Major faults read pages from a disk, or from zram, which costs CPU time. Major faults are the
 * cause only if there is at least one for every eight pages that the call cleared or copied.
 */
static bool find_swap(const struct gf_evidence *evidence, struct gf_finding *ret)
{
    const uint64_t major = evidence->used.major;

    if (!major || major < evidence->slow->work / PAGE / 8)
        return false;
    SET_CAUSE(swap, "%lu major page fault%s for %zu KiB", major, plural(major),
              evidence->slow->work >> 10);
    return true;
}

static bool find_compaction(const struct gf_evidence *evidence, struct gf_finding *ret)
{
    const struct gf_slowpath *slow = evidence->slow;

    if (!evidence->pressure.compactions || evidence->used.minor >= slow->work / PAGE / 2)
        return false;
    SET_CAUSE(compaction, "%lu page fault%s for %zu KiB; the kernel compacted memory %lu time%s",
              evidence->used.minor, plural(evidence->used.minor), slow->work >> 10,
              evidence->pressure.compactions, plural(evidence->pressure.compactions));
    return true;
}

/* If no part takes half of the call, but all parts together do, the largest part is the cause. */
static bool find_largest_part(const struct sums *sums, struct gf_finding *ret)
{
    const uint64_t *us = sums->part_us;
    const struct {
        enum gf_cause cause;
        const char *what;
        uint64_t us;
    } parts[] = {
        {gf_cause_lock, "waiting for locks of the heap", us[gf_slowpath_lock]},
        {gf_cause_purge, "madvise calls", us[gf_slowpath_purge]},
        {gf_cause_map, "mmap and munmap calls", us[gf_slowpath_map] + us[gf_slowpath_unmap]},
        {gf_cause_setup, "creating an arena", us[gf_slowpath_setup]},
        {gf_cause_faults, "the first touch of a huge page", us[gf_slowpath_huge]},
    };
    size_t most = 0;

    if (!is_half(sums->total_us - sums->work_us, sums))
        return false;
    for (size_t i = 1; i < GF_ARRAY_LEN(parts); i++)
        if (parts[i].us > parts[most].us)
            most = i;
    ret->cause = parts[most].cause;
    ret->may_be_pause |= ret->cause == gf_cause_lock;
    gf_fmt(ret->text, sizeof(ret->text), "%lu us of %lu us in %s, the largest of several parts",
           parts[most].us, sums->total_us, parts[most].what);
    return true;
}

static bool find_part(const struct gf_evidence *evidence, const struct sums *sums,
                      struct gf_finding *ret)
{
    const struct gf_slowpath *slow = evidence->slow;
    const uint64_t *us = sums->part_us;

    if (is_half(us[gf_slowpath_lock], sums)) {
        ret->may_be_pause = true;
        if (slow->forked)
            SET_CAUSE(fork, "waited %lu us for a lock of the heap while the process forked",
                      us[gf_slowpath_lock]);
        else
            SET_CAUSE(lock, "waited %lu us for %u lock%s of the heap", us[gf_slowpath_lock],
                      slow->part_count[gf_slowpath_lock],
                      plural(slow->part_count[gf_slowpath_lock]));
    } else if (is_half(us[gf_slowpath_purge], sums)) {
        SET_CAUSE(purge, "%lu us in %u madvise call%s, which purged %lu KiB", us[gf_slowpath_purge],
                  slow->part_count[gf_slowpath_purge], plural(slow->part_count[gf_slowpath_purge]),
                  slow->part_bytes[gf_slowpath_purge] >> 10);
    } else if (is_half(us[gf_slowpath_map] + us[gf_slowpath_unmap], sums)) {
        SET_CAUSE(map, "%lu us in %u mmap call%s of %lu KiB and %u munmap call%s of %lu KiB",
                  us[gf_slowpath_map] + us[gf_slowpath_unmap], slow->part_count[gf_slowpath_map],
                  plural(slow->part_count[gf_slowpath_map]),
                  slow->part_bytes[gf_slowpath_map] >> 10, slow->part_count[gf_slowpath_unmap],
                  plural(slow->part_count[gf_slowpath_unmap]),
                  slow->part_bytes[gf_slowpath_unmap] >> 10);
    } else if (is_half(us[gf_slowpath_setup], sums)) {
        SET_CAUSE(setup, "%lu us to create an arena", us[gf_slowpath_setup]);
    } else if (is_half(us[gf_slowpath_huge], sums)) {
        if (evidence->pressure.compactions)
            SET_CAUSE(compaction,
                      "%lu us in the first touch of a huge page; the kernel compacted memory "
                      "%lu time%s",
                      us[gf_slowpath_huge], evidence->pressure.compactions,
                      plural(evidence->pressure.compactions));
        else if (!find_reclaim(evidence, sums, ret))
            SET_CAUSE(faults, "%lu us in the first touch of a huge page", us[gf_slowpath_huge]);
    } else {
        return find_largest_part(sums, ret);
    }
    return true;
}

/*
 * Returns true if the thread was off the CPU for at least half of the call. Time in which it waited
 * for jemalloc's locks is not included, because that time is measured separately
 * (gf_slowpath_lock).
 */
static bool find_idle(const struct gf_evidence *evidence, const struct sums *sums,
                      struct gf_finding *ret)
{
    const struct gf_slowpath_usage *used = &evidence->used;
    const uint64_t idle = sums->idle_us;

    if (!used->known ||
        !is_half(sums->idle_us - gf_min(sums->part_us[gf_slowpath_lock], sums->idle_us), sums))
        return false;
    ret->may_be_pause = true;
    if (used->voluntary == 0) {
        find_preempted(evidence, sums, ret);
    } else if (evidence->slow->forked) {
        SET_CAUSE(fork, "blocked for %lu us while the process forked", idle);
    } else if (used->major && used->voluntary <= 2 * used->major) {
        SET_CAUSE(swap, "blocked for %lu us, with %lu major page fault%s", idle, used->major,
                  plural(used->major));
    } else if (find_reclaim(evidence, sums, ret)) {
        /* find_reclaim has already set the cause */
    } else if (evidence->single_threaded && used->voluntary <= 4 && is_half(sums->work_us, sums) &&
               evidence->pressure.known) {
        /* If no other thread shares the address space, clearing memory never blocks. */
        SET_CAUSE(paused, "stopped for %lu us in code that does not wait", idle);
    } else {
        find_part(evidence, sums, ret);
        const enum gf_cause part = ret->cause;
        SET_CAUSE(unknown, "blocked for %lu us", idle);
        ret->without_pause = part;
        return true;
    }
    ret->without_pause = ret->cause;
    return true;
}

/*
 * Finds the cause of a call that cleared or copied memory. Page faults are the cause if there was
 * at least one fault for every four small pages of the memory, or more than one for every four huge
 * pages.
 */
static void find_work(const struct gf_evidence *evidence, const struct sums *sums,
                      struct gf_finding *ret)
{
    const struct gf_slowpath *slow = evidence->slow;
    const struct gf_slowpath_usage *used = &evidence->used;

    if (!slow->work && used->known && is_half(used->minor, sums))
        SET_CAUSE(faults, "%lu page fault%s", used->minor, plural(used->minor));
    else if (!slow->work || !is_half(sums->work_us, sums) || !used->known)
        SET_CAUSE(unknown, "%lu us outside the timed operations", sums->work_us);
    else if (find_compaction(evidence, ret) || find_swap(evidence, ret) ||
             find_reclaim(evidence, sums, ret))
        ;
    else if (used->minor >= slow->work / PAGE / 4 ||
             gf_min(used->minor, evidence->pressure.huge) > slow->work / HUGE_PAGE / 4)
        SET_CAUSE(faults, "%lu page fault%s for %zu KiB", used->minor, plural(used->minor),
                  slow->work >> 10);
    else
        SET_CAUSE(copy, "cleared or copied %zu KiB with %lu page fault%s", slow->work >> 10,
                  used->minor, plural(used->minor));
}

/*
 * Finds the cause of a call of another allocator. Only the thread's resource usage during the call
 * is known.
 */
static void find_foreign(const struct gf_evidence *evidence, const struct sums *sums,
                         struct gf_finding *ret)
{
    const struct gf_slowpath_usage *used = &evidence->used;

    if (!used->known)
        SET_CAUSE(unknown, "%lu us in the program's own allocator", sums->total_us);
    else if (find_compaction(evidence, ret) || (evidence->slow->work && find_swap(evidence, ret)) ||
             find_reclaim(evidence, sums, ret))
        ;
    else if (is_half(2 * used->minor, sums))
        SET_CAUSE(faults, "%lu page fault%s in the program's own allocator", used->minor,
                  plural(used->minor));
    else
        SET_CAUSE(unknown, "%lu us in the program's own allocator, %lu of them on a CPU",
                  sums->total_us, sums->total_us - sums->idle_us);
}

/* Finds the cause of a driver call. Only the thread's resource usage during the call is known. */
static void find_driver(const struct gf_evidence *evidence, const struct sums *sums,
                        struct gf_finding *ret)
{
    const struct gf_slowpath_usage *used = &evidence->used;
    const struct gf_pressure_counters *pressure = &evidence->pressure;
    const bool waits = evidence->driver != gf_driver_call;

    ret->may_be_pause = is_half(sums->idle_us, sums);
    if (ret->may_be_pause && used->known && used->voluntary == 0 && used->forced > 0)
        find_preempted(evidence, sums, ret);
    else if (is_half(used->minor, sums))
        SET_CAUSE(faults, "%lu page fault%s in the driver", used->minor, plural(used->minor));
    else if (ret->may_be_pause && pressure->known && find_reclaim(evidence, sums, ret))
        ;
    else if (ret->may_be_pause && waits && used->major && used->voluntary <= 2 * used->major)
        SET_CAUSE(swap, "blocked for %lu us, with %lu major page fault%s", sums->idle_us,
                  used->major, plural(used->major));
    else if (evidence->driver == gf_driver_copy)
        SET_CAUSE(unknown, "%lu us in a copy", sums->total_us);
    else if (waits)
        SET_CAUSE(gpu,
                  "%lu us in the driver, %lu of them on a CPU; the GPU was idle when "
                  "the wait began",
                  sums->total_us, sums->total_us - sums->idle_us);
    else
        SET_CAUSE(gpu, "%lu us in the driver, %lu of them on a CPU", sums->total_us,
                  sums->total_us - sums->idle_us);
    ret->without_pause = ret->cause;
}

void gf_cause_find(const struct gf_evidence *evidence, struct gf_finding *ret)
{
    struct sums sums;

    ret->may_be_pause = false;
    ret->cause = gf_cause_unknown;
    add_up(evidence, &sums);
    if (evidence->driver) {
        find_driver(evidence, &sums, ret);
        return;
    }
    if (find_idle(evidence, &sums, ret))
        return;
    if (evidence->slow->foreign)
        find_foreign(evidence, &sums, ret);
    else if (!find_part(evidence, &sums, ret))
        find_work(evidence, &sums, ret);
    ret->without_pause = ret->cause;
}

static struct gf_stall_count own[GF_CAUSE_COUNT];
/*
 * `own`, or memory that is shared with children. The counts are changed by the __atomic_* builtins.
 */
static struct gf_stall_count *_Atomic counts = own;

void gf_stall_count_share(void)
{
    struct gf_stall_count *shared = gf_scratch_share(sizeof(own));

    if (!shared)
        return;
    memcpy(shared, own, sizeof(own));
    gf_store_release(&counts, shared);
}

void gf_stall_count_add(enum gf_cause cause, uint64_t us)
{
    struct gf_stall_count *at = &gf_load_acquire(&counts)[cause];

    __atomic_fetch_add(&at->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&at->us, us, __ATOMIC_RELAXED);
}

void gf_stall_count_move(enum gf_cause from, enum gf_cause to, uint64_t us)
{
    struct gf_stall_count *at = &gf_load_acquire(&counts)[from];

    __atomic_fetch_sub(&at->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&at->us, us, __ATOMIC_RELAXED);
    gf_stall_count_add(to, us);
}

void gf_stall_counts(struct gf_stall_count ret[GF_CAUSE_COUNT])
{
    const struct gf_stall_count *from = gf_load_acquire(&counts);

    for (unsigned i = 0; i < GF_CAUSE_COUNT; i++) {
        ret[i].calls = __atomic_load_n(&from[i].calls, __ATOMIC_RELAXED);
        ret[i].us = __atomic_load_n(&from[i].us, __ATOMIC_RELAXED);
    }
}
