/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/first_touch.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "os/permit.h"
#include "preload/heap/budget.h"
#include "preload/heap/jemalloc.h"
#include "preload/heap/mappings.h"
#include "preload/heap/slowpath.h"

#include <pthread.h>
#include <time.h>

#define SAMPLES 64 /* number of pages of a block that are read if mincore must not be called */

static _Atomic bool allowed;

void gf_presence_allow(void)
{
    gf_store_relaxed(&allowed, true);
}

bool gf_presence_allowed(void)
{
    return gf_load_relaxed(&allowed) && gf_permit(gf_permit_mincore);
}

/* Whether a page is present; true if unknown. */
static bool page_is_present(uintptr_t page)
{
    unsigned char present = 1;

    if (gf_presence_allowed())
        syscall(SYS_mincore, page, 1UL, &present);
    return present & 1;
}

/* Calls mincore for a few pages at a time, because the thread's stack may be small. */
static bool most_are_present(const char *start, size_t page, size_t count)
{
    unsigned char present[512];
    size_t missing = 0;
    bool ret = true;

    for (size_t at = 0; ret && at < count; at += sizeof(present)) {
        const size_t some = gf_min(count - at, sizeof(present));
        ret = syscall(SYS_mincore, start + at * page, some * page, present) == 0;
        for (size_t i = 0; ret && i < some; i++)
            missing += !(present[i] & 1);
        ret = ret && missing <= count / 8;
    }
    return ret;
}

static bool has_data(const char *start, size_t size)
{
    const uint64_t __attribute__((may_alias)) *word = (const void *)start;

    for (size_t i = 0; i < size / sizeof(*word); i++)
        if (word[i])
            return true;
    return false;
}

/*
 * A page with data is present. Reading an absent page maps the kernel's zero page, which uses no
 * memory.
 */
static bool most_have_data(const char *start, size_t page, size_t count)
{
    const size_t samples = gf_min(count, SAMPLES);
    size_t empty = 0;

    for (size_t i = 0; i < samples && empty <= samples / 8; i++)
        empty += !has_data(start + i * count / samples * page, page);
    return empty <= samples / 8;
}

bool gf_presence_most(const char *start, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), count = size / page;

    return gf_presence_allowed() ? most_are_present(start, page, count)
                                 : most_have_data(start, page, count);
}

/*
 * A first touch of a huge page is slow if it takes this long. Normally such a touch takes less than
 * 1 ms. The 512 faults of small pages that a huge page replaces take 1 to 3 ms.
 */
#define SLOW_NS UINT64_C(3000000)
#define WINDOW 16

static struct {
    bool possible;
    _Atomic bool on, stopped;
    _Atomic uint64_t asked, advised;
    struct gf_huge_trial trial; /* used only by the holder of `judging` */
    /* True while a thread adds a sample, and always after advising has stopped. */
    _Atomic bool judging;
    const char *reason;
} huge_state = {.reason = "the heap is starting"};

/*
 * The holder of `judging` may be another thread of the parent, which does not exist in the child.
 * So the flag is reset.
 */
static void huge_in_child(void)
{
    if (gf_load_relaxed(&huge_state.judging) && !gf_load_relaxed(&huge_state.stopped))
        gf_store_relaxed(&huge_state.judging, false);
}

void gf_huge_init(enum gf_profile profile, bool engines_child)
{
    /* Indexed by jemalloc's enum: madvise, always, never, not supported. */
    static const char *const system[] = {NULL, "the system provides huge pages in every process",
                                         "the system's setting is 'never'",
                                         "the kernel does not support huge pages"};
    const unsigned mode = (unsigned)je_init_system_thp_mode;

    if (profile == gf_profile_inference)
        huge_state.reason =
            "GPUFEED_PROFILE=inference: a request would wait while the kernel finds a huge page";
    else if (mode >= GF_ARRAY_LEN(system) || system[mode])
        huge_state.reason =
            mode < GF_ARRAY_LEN(system) ? system[mode] : "the system's setting is unknown";
    else {
        huge_state.reason =
            "GPUFEED_PROFILE=training: with huge pages, the first touch of a large block "
            "takes a quarter of the time";
        huge_state.possible = true;
        pthread_atfork(NULL, NULL, huge_in_child);
    }
    if (engines_child)
        gf_huge_allow();
}

void gf_huge_allow(void)
{
    gf_store_relaxed(&huge_state.on, huge_state.possible);
}

/* Whether the heap requests huge pages for a mapping of this size. */
static bool asks_for_huge(size_t size)
{
    return gf_unlikely(size >= GF_HUGE_MIN) && gf_load_relaxed(&huge_state.on) &&
           !gf_load_relaxed(&huge_state.stopped);
}

bool gf_huge_judge(struct gf_huge_trial *trial, uint64_t ns, bool is_huge)
{
    trial->samples++;
    trial->slow += ns >= SLOW_NS;
    trial->small += !is_huge;
    const bool enough = trial->slow >= 3 || trial->small > WINDOW / 2;
    if (trial->samples >= WINDOW && !enough)
        *trial = (struct gf_huge_trial){0};
    return enough;
}

/*
 * Stops advising, and revokes earlier advice. Otherwise the kernel would search for a huge page at
 * each fault in the advised mappings.
 */
static void stop_advising(void)
{
    struct gf_range range;

    huge_state.reason = huge_state.trial.slow >= 3
                            ? "stopped: three of 16 first touches took over 3 ms"
                            : "stopped: the kernel finds no huge pages";
    gf_store_release(&huge_state.stopped, true);
    for (size_t i = 0; gf_mappings_at(i, &range); i++)
        if (range.size >= GF_HUGE_MIN)
            syscall(SYS_madvise, range.start, range.size, MADV_NOHUGEPAGE);
}

static void judge_sample(uint64_t ns, bool is_huge)
{
    if (gf_load_relaxed(&huge_state.stopped) || gf_exchange_acquire(&huge_state.judging, true))
        return;
    if (gf_huge_judge(&huge_state.trial, ns, is_huge))
        stop_advising();
    else
        gf_store_release(&huge_state.judging, false);
}

/*
 * Adds the sample of a first touch in a large block, only if all large mappings were advised. In a
 * mapping without advice, a small page would not show that the kernel lacks huge pages.
 */
static void add_sample(uint64_t ns, bool is_huge)
{
    const uint64_t advised = gf_load_relaxed(&huge_state.advised);

    if (gf_load_relaxed(&huge_state.on) && advised && advised == gf_load_relaxed(&huge_state.asked))
        judge_sample(ns, is_huge);
}

/*
 * Returns the thread's CPU time, which excludes waits for a CPU. Reading it takes a system call
 * that neither glibc nor jemalloc makes. So until such calls are allowed, returns the time of the
 * wall clock instead. A sealed process (os/permit.h) measures nothing, because the program may have
 * forbidden itself to read the counter behind the wall clock (PR_SET_TSC).
 */
static uint64_t touch_clock(void)
{
    if (gf_permit_sealed())
        return 0;
    return gf_presence_allowed() ? gf_thread_cpu_ns() : gf_now_ns();
}

/*
 * Advises and touches one huge page before the rest of a mapping is advised. If the kernel takes
 * long to find the page, or a hypervisor takes long to provide its memory, the same would be true
 * of all further pages.
 */
static bool try_one(uintptr_t page)
{
    if (syscall(SYS_madvise, page, GF_HUGE_PAGE, MADV_HUGEPAGE) != 0)
        return false;
    gf_slowpath_before_huge();
    const struct gf_slowpath_mark mark = gf_slowpath_begin(gf_slowpath_huge);
    const uint64_t begun = touch_clock();
    *(volatile char *)page = 0;
    const uint64_t ns = touch_clock() - begun;
    gf_slowpath_end(&mark, gf_slowpath_huge, GF_HUGE_PAGE);
    const bool is_huge = page_is_present(page + GF_HUGE_PAGE - (size_t)sysconf(_SC_PAGESIZE));

    judge_sample(ns, is_huge);
    return is_huge && ns < SLOW_NS;
}

/* The whole mapping gets the same advice, because mremap refuses a range of two mappings. */
void gf_huge_mapped(void *start, size_t size)
{
    const uintptr_t begin = (uintptr_t)start, end = begin + size;
    const uintptr_t page = (begin + GF_HUGE_PAGE - 1) & ~(uintptr_t)(GF_HUGE_PAGE - 1);

    if (!asks_for_huge(size))
        return;
    gf_add_relaxed(&huge_state.asked, size);
    if (page + GF_HUGE_PAGE > end)
        return;
    const bool good = try_one(page) && !gf_load_relaxed(&huge_state.stopped);
    if (syscall(SYS_madvise, start, size, good ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0 && good)
        gf_add_relaxed(&huge_state.advised, size);
}

void gf_huge_grown(void *start, size_t before, size_t after)
{
    const size_t size = before < GF_HUGE_MIN ? after : after - before;

    if (!asks_for_huge(after))
        return;
    gf_add_relaxed(&huge_state.asked, size);
    if (before >= GF_HUGE_MIN || syscall(SYS_madvise, start, after, MADV_HUGEPAGE) == 0)
        gf_add_relaxed(&huge_state.advised, size);
}

void gf_huge_read(struct gf_heap_huge *ret)
{
    *ret = (struct gf_heap_huge){
        .on = gf_load_relaxed(&huge_state.on) && !gf_load_acquire(&huge_state.stopped),
        .reason = huge_state.reason,
        .asked_bytes = gf_load_relaxed(&huge_state.asked),
        .advised_bytes = gf_load_relaxed(&huge_state.advised),
    };
}

#define MIB ((uint64_t)1 << 20)
#define PROBES 4
/* All blocks of at least this size are examined. Of smaller blocks, one in ONE_IN is examined. */
#define ALWAYS (16 * MIB)
#define ONE_IN 64
#define GAP_NS UINT64_C(10000000) /* minimum time between two timed faults */

static struct {
    /*
     * There is one counter for each of malloc and free. With a common counter, a program that
     * alternates malloc and free would have only one of the two sampled.
     */
    _Alignas(64) _Atomic uint64_t turn_allocated, turn_freed;
    _Atomic uint64_t looks, missing_bytes;
    /* The part of missing_bytes that was still missing when the blocks were freed. */
    _Atomic uint64_t untouched_bytes;
    _Atomic uint64_t timed;
    _Atomic uint64_t due_ns;     /* when the next fault is to be timed */
    _Atomic uint64_t ns_per_mib; /* the duration for 1 MiB, by the latest timed fault */
    _Atomic uint64_t us;
} touch;

/*
 * Times the fault of a missing page. A store is harmless, because the block's contents are
 * undefined or zero.
 */
static void time_fault(uintptr_t page, const uintptr_t start, size_t size)
{
    const uintptr_t whole = page & ~(uintptr_t)(GF_HUGE_PAGE - 1);
    const size_t small = (size_t)sysconf(_SC_PAGESIZE);
    const uint64_t begun = gf_thread_cpu_ns();
    *(volatile char *)page = 0;
    const uint64_t ns = gf_thread_cpu_ns() - begun;
    const uintptr_t other = page == whole ? page + small : whole;
    const bool could = whole >= start && whole + GF_HUGE_PAGE <= start + size;
    const bool huge =
        could && page_is_present(other) && page_is_present(whole + GF_HUGE_PAGE - small);

    if (could && size >= GF_HUGE_MIN)
        add_sample(ns, huge);
    gf_store_relaxed(&touch.ns_per_mib, ns * (MIB / small) / (huge ? GF_HUGE_PAGE / small : 1));
    gf_add_relaxed(&touch.timed, 1);
}

/* Returns true to one caller in each period of GAP_NS. */
static bool fault_is_due(void)
{
    const uint64_t now = gf_coarse_ns();
    uint64_t due = gf_load_relaxed(&touch.due_ns);

    return now >= due && gf_cas_relaxed(&touch.due_ns, &due, now + GAP_NS);
}

/* Returns how many of PROBES pages are missing, and the address of one of them. */
static uint64_t count_missing(uintptr_t start, size_t size, uintptr_t *ret_one)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uint64_t count = 0;

    for (size_t i = 0; i < PROBES; i++) {
        const uintptr_t at = (start + size / PROBES * i + size / PROBES / 2) & ~(page - 1);
        if (!page_is_present(at)) {
            *ret_one = at;
            count++;
        }
    }
    return count;
}

/*
 * Returns how many blocks this block represents in the estimate; 0 if this block is not examined.
 */
static uint64_t sample_weight(_Atomic uint64_t *turn, size_t block)
{
    if (!gf_presence_allowed())
        return 0;
    if (block >= ALWAYS)
        return 1;
    return gf_add_relaxed(turn, 1) % ONE_IN ? 0 : ONE_IN;
}

void gf_first_touch_allocated(void *start, size_t size, size_t block)
{
    const uint64_t weight = sample_weight(&touch.turn_allocated, block);
    gf_keep_errno();
    uintptr_t missing;

    if (!weight)
        return;
    const uint64_t count = count_missing((uintptr_t)start, size, &missing);
    gf_add_relaxed(&touch.looks, 1);
    if (count) {
        if (fault_is_due())
            time_fault(missing, (uintptr_t)start, size);
        const uint64_t bytes = size / PROBES * count * weight;
        gf_add_relaxed(&touch.missing_bytes, bytes);
        gf_add_relaxed(&touch.us, bytes / 1024 * gf_load_relaxed(&touch.ns_per_mib) / 1024 / 1000);
    }
}

void gf_first_touch_freed(void *start, size_t size, size_t block)
{
    const uint64_t weight = sample_weight(&touch.turn_freed, block);
    gf_keep_errno();
    uintptr_t missing;

    if (!weight)
        return;
    const uint64_t count = count_missing((uintptr_t)start, size, &missing);
    gf_add_relaxed(&touch.untouched_bytes, size / PROBES * count * weight);
}

void gf_first_touch_read(struct gf_heap_first_touch *ret)
{
    const uint64_t all = gf_load_relaxed(&touch.missing_bytes);
    /* malloc and free are sampled separately, so untouched bytes may exceed missing bytes. */
    const uint64_t missing = all - gf_min(all, gf_load_relaxed(&touch.untouched_bytes));
    const uint64_t us = gf_load_relaxed(&touch.us);
    const uint64_t first = gf_min(missing, gf_mappings_bytes());
    const uint64_t taken =
        gf_load_relaxed(&gf_budget.lazily_freed) + gf_load_relaxed(&gf_budget.purged);

    *ret = (struct gf_heap_first_touch){
        .looks = gf_load_relaxed(&touch.looks),
        .timed = gf_load_relaxed(&touch.timed),
        .missing_bytes = missing,
        /* again_bytes cannot exceed the bytes that were freed lazily or purged. */
        .again_bytes = gf_min(missing - first, taken),
        .us = all ? (uint64_t)((double)us * (double)missing / (double)all) : 0,
        .ns_per_mib = gf_load_relaxed(&touch.ns_per_mib),
    };
}
