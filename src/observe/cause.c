/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/cause.h"

#include "base/fmt.h"

#define PAGE 4096
#define HUGE_PAGE ((uint64_t)2 << 20)

const char *gf_cause_name(enum gf_cause cause)
{
    static const char *const names[] = {
#define GF_CAUSE(name) #name,
        GF_CAUSES(GF_CAUSE)
#undef GF_CAUSE
    };
    return cause < GF_CAUSE_COUNT ? names[cause] : "unknown";
}

struct sums {
    uint64_t total_us, idle_us; /* idle: of the whole call, without a CPU */
    uint64_t part_us[GF_SLOW_PARTS], work_us;
};

static void add_up(const struct gf_evidence *evidence, struct sums *ret)
{
    const struct gf_slow *slow = evidence->slow;
    uint64_t parts = 0;

    ret->total_us = (slow->end_ns - slow->start_ns) / 1000;
    for (unsigned i = 0; i < GF_SLOW_PARTS; i++) {
        ret->part_us[i] = slow->part_ns[i] / 1000;
        parts += ret->part_us[i];
    }
    ret->work_us = ret->total_us - gf_min(parts, ret->total_us);
    ret->idle_us = evidence->used.known
                       ? ret->total_us - gf_min(evidence->used.cpu_us, ret->total_us)
                       : 0;
}

#define FOUND(found, ...)                                                                          \
    do {                                                                                           \
        ret->cause = gf_cause_##found;                                                             \
        gf_fmt(ret->text, sizeof(ret->text), __VA_ARGS__);                                         \
    } while (0)

#define ULL(x) ((unsigned long long)(x))

static bool is_half(uint64_t part, const struct sums *sums)
{
    return part * 2 >= sums->total_us;
}

/* Runnable, and without a CPU. */
static void find_preempted(const struct gf_evidence *evidence, const struct sums *sums,
                           struct gf_finding *ret)
{
    const uint64_t throttled = evidence->risen.throttled_us;

    if (throttled && throttled * 2 >= sums->idle_us)
        FOUND(throttled, "without a CPU for %llu us; the group's quota held it up for %llu",
              ULL(sums->idle_us), ULL(throttled));
    else if (evidence->throttled_before_us && evidence->throttled_before_us * 2 >= sums->idle_us)
        FOUND(preempted, "another thread, or the group's quota, had the CPU for %llu us",
              ULL(sums->idle_us));
    else
        FOUND(preempted, "another thread had the CPU for %llu us", ULL(sums->idle_us));
}

/*
 * The group waited for memory for most of the call; where that is not known, it met its limit, or
 * somebody on the machine had to reclaim, which says nothing about a thread that was blocked.
 */
static bool find_reclaim(const struct gf_evidence *evidence, const struct sums *sums,
                         struct gf_finding *ret)
{
    const struct gf_strain *risen = &evidence->risen;

    if (risen->waits_known ? !is_half(risen->waited_us, sums)
                           : !risen->high && !risen->max && (ret->stopped || !risen->reclaims))
        return false;
    if (risen->waits_known)
        FOUND(reclaim, "the memory group waited for memory for %llu us, its limit met %llu times",
              ULL(risen->waited_us), ULL(risen->high + risen->max));
    else
        FOUND(reclaim, "memory was reclaimed %llu times meanwhile, the group's limit met %llu times",
              ULL(risen->reclaims), ULL(risen->high + risen->max));
    return true;
}

/* Pages that came back from a disk or from zram, which costs CPU time; some of many mean nothing. */
static bool find_swap(const struct gf_evidence *evidence, struct gf_finding *ret)
{
    const uint64_t major = evidence->used.major;

    if (!major || major < evidence->slow->work / PAGE / 8)
        return false;
    FOUND(swap, "%llu pages came from a disk for %zu KiB", ULL(major), evidence->slow->work >> 10);
    return true;
}

static bool find_compaction(const struct gf_evidence *evidence, struct gf_finding *ret)
{
    const struct gf_slow *slow = evidence->slow;

    if (!evidence->risen.compactions || evidence->used.minor >= slow->work / PAGE / 2)
        return false;
    FOUND(compaction, "%llu page faults for %zu KiB; the kernel compacted memory %llu times",
          ULL(evidence->used.minor), slow->work >> 10, ULL(evidence->risen.compactions));
    return true;
}

static bool find_part(const struct gf_evidence *evidence, const struct sums *sums,
                      struct gf_finding *ret)
{
    const struct gf_slow *slow = evidence->slow;
    const uint64_t *us = sums->part_us;

    if (is_half(us[gf_slow_lock], sums)) {
        ret->stopped = true;
        if (slow->forked)
            FOUND(fork, "%llu us behind a lock of the heap while the process forked",
                  ULL(us[gf_slow_lock]));
        else
            FOUND(lock, "%llu us behind %u locks of the heap", ULL(us[gf_slow_lock]),
                  slow->part_count[gf_slow_lock]);
    } else if (is_half(us[gf_slow_purge], sums)) {
        FOUND(purge, "%llu us in %u madvise giving back %llu KiB", ULL(us[gf_slow_purge]),
              slow->part_count[gf_slow_purge], ULL(slow->part_bytes[gf_slow_purge] >> 10));
    } else if (is_half(us[gf_slow_map] + us[gf_slow_unmap], sums)) {
        FOUND(map, "%llu us in %u mmap of %llu KiB and %u munmap of %llu KiB",
              ULL(us[gf_slow_map] + us[gf_slow_unmap]), slow->part_count[gf_slow_map],
              ULL(slow->part_bytes[gf_slow_map] >> 10), slow->part_count[gf_slow_unmap],
              ULL(slow->part_bytes[gf_slow_unmap] >> 10));
    } else if (is_half(us[gf_slow_setup], sums)) {
        FOUND(setup, "%llu us setting up an arena", ULL(us[gf_slow_setup]));
    } else if (is_half(us[gf_slow_huge], sums)) {
        if (evidence->risen.compactions)
            FOUND(compaction, "%llu us in the first touch of a huge page; the kernel compacted memory "
                  "%llu times", ULL(us[gf_slow_huge]), ULL(evidence->risen.compactions));
        else if (!find_reclaim(evidence, sums, ret))
            FOUND(faults, "%llu us in the first touch of a huge page", ULL(us[gf_slow_huge]));
    } else {
        return false;
    }
    return true;
}

/* Off the CPU for most of it, and not in a lock of jemalloc's, whose time is known. */
static bool find_idle(const struct gf_evidence *evidence, const struct sums *sums,
                      struct gf_finding *ret)
{
    const struct gf_slow_usage *used = &evidence->used;
    const unsigned long long idle = sums->idle_us;

    if (!used->known || !is_half(sums->idle_us - gf_min(sums->part_us[gf_slow_lock], sums->idle_us),
                                 sums))
        return false;
    ret->stopped = true;
    if (used->voluntary == 0) {
        find_preempted(evidence, sums, ret);
    } else if (evidence->slow->forked) {
        FOUND(fork, "blocked for %llu us while the process forked", idle);
    } else if (used->major && used->voluntary <= 2 * used->major) {
        FOUND(swap, "%llu pages came from a disk, blocked for %llu us", ULL(used->major), idle);
    } else if (find_reclaim(evidence, sums, ret)) {
        /* said */
    } else if (evidence->alone && used->voluntary <= 4 && is_half(sums->work_us, sums) &&
               evidence->risen.known) {
        /* Who only clears memory has nothing to wait for, if no other thread shares the memory. */
        FOUND(paused, "stood still for %llu us in code that waits for nothing", idle);
    } else {
        find_part(evidence, sums, ret);
        const enum gf_cause part = ret->cause;
        FOUND(unknown, "blocked for %llu us", idle);
        ret->otherwise = part;
        return true;
    }
    ret->otherwise = ret->cause;
    return true;
}

/* Clearing or copying: by faults, if it met one for a good share of its pages, small or huge. */
static void find_work(const struct gf_evidence *evidence, const struct sums *sums,
                      struct gf_finding *ret)
{
    const struct gf_slow *slow = evidence->slow;
    const struct gf_slow_usage *used = &evidence->used;

    if (!slow->work || !is_half(sums->work_us, sums) || !used->known)
        FOUND(unknown, "%llu us in no part that is timed", ULL(sums->work_us));
    else if (find_compaction(evidence, ret) || find_swap(evidence, ret) ||
             find_reclaim(evidence, sums, ret))
        ;
    else if (used->minor >= slow->work / PAGE / 4 ||
             gf_min(used->minor, evidence->risen.huge) > slow->work / HUGE_PAGE / 4)
        FOUND(faults, "%llu page faults for %zu KiB", ULL(used->minor), slow->work >> 10);
    else
        FOUND(copy, "%zu KiB were cleared or copied with %llu page faults", slow->work >> 10,
              ULL(used->minor));
}

/* Another allocator: what it does inside is not known, what the thread met is. */
static void find_foreign(const struct gf_evidence *evidence, const struct sums *sums,
                         struct gf_finding *ret)
{
    const struct gf_slow_usage *used = &evidence->used;

    if (!used->known)
        FOUND(unknown, "%llu us in the program's own allocator", ULL(sums->total_us));
    else if (find_compaction(evidence, ret) || (evidence->slow->work && find_swap(evidence, ret)) ||
             find_reclaim(evidence, sums, ret))
        ;
    else if (is_half(2 * used->minor, sums))
        FOUND(faults, "%llu page faults in the program's own allocator", ULL(used->minor));
    else
        FOUND(unknown, "%llu us in the program's own allocator, %llu of them on a CPU",
              ULL(sums->total_us), ULL(sums->total_us - sums->idle_us));
}

/* Between the driver's entry and its return nothing else is known. */
static void find_driver(const struct gf_evidence *evidence, const struct sums *sums,
                        struct gf_finding *ret)
{
    const struct gf_slow_usage *used = &evidence->used;
    const struct gf_strain *risen = &evidence->risen;
    const bool waits = evidence->driver != gf_driver_call;

    ret->stopped = is_half(sums->idle_us, sums);
    if (ret->stopped && used->known && used->voluntary == 0 && used->forced > 0)
        find_preempted(evidence, sums, ret);
    else if (is_half(used->minor, sums))
        FOUND(faults, "%llu page faults in the driver", ULL(used->minor));
    else if (ret->stopped && risen->known && find_reclaim(evidence, sums, ret))
        ;
    else if (ret->stopped && waits && used->major && used->voluntary <= 2 * used->major)
        FOUND(swap, "%llu pages came from a disk, blocked for %llu us", ULL(used->major),
              ULL(sums->idle_us));
    else if (evidence->driver == gf_driver_copy)
        FOUND(unknown, "%llu us in a copy", ULL(sums->total_us));
    else if (waits)
        FOUND(gpu, "%llu us in the driver, %llu of them on a CPU; the GPU was done before",
              ULL(sums->total_us), ULL(sums->total_us - sums->idle_us));
    else
        FOUND(gpu, "%llu us in the driver, %llu of them on a CPU", ULL(sums->total_us),
              ULL(sums->total_us - sums->idle_us));
    ret->otherwise = ret->cause;
}

void gf_cause_find(const struct gf_evidence *evidence, struct gf_finding *ret)
{
    struct sums sums;

    ret->stopped = false;
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
    ret->otherwise = ret->cause;
}
