/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/pages/huge.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "os/permit.h"
#include "preload/heap/jemalloc/jemalloc.h"
#include "preload/heap/pages/mappings.h"
#include "preload/heap/pages/presence.h"
#include "preload/heap/timing/slowpath.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * A first touch of a huge page is slow if it takes this long. Normally such a touch takes less than
 * 1 ms. The 512 faults of small pages that a huge page replaces take 1 to 3 ms.
 */
#define SLOW_NS UINT64_C(3000000)
#define WINDOW 16

static struct {
    bool on;
    _Atomic bool stopped;
    _Atomic uint64_t asked, advised;
    struct gf_huge_guard guard; /* used only by the holder of `judging` */
    /* True while a thread adds a sample, and always after advising has stopped. */
    _Atomic bool judging;
    const char *reason;
} huge = {.reason = "the heap is starting"};

/*
 * The holder of `judging` may be another thread of the parent, which does not exist in the child.
 * So the flag is reset.
 */
static void huge_in_child(void)
{
    if (gf_load_relaxed(&huge.judging) && !gf_load_relaxed(&huge.stopped))
        gf_store_relaxed(&huge.judging, false);
}

void gf_huge_init(enum gf_profile profile)
{
    /* Indexed by jemalloc's enum: madvise, always, never, not supported. */
    static const char *const system[] = {NULL, "the system provides huge pages in every process",
                                         "the system's setting is 'never'",
                                         "the kernel does not support huge pages"};
    const unsigned mode = (unsigned)je_init_system_thp_mode;

    if (profile == gf_profile_inference)
        huge.reason =
            "GPUFEED_PROFILE=inference: a request would wait while the kernel finds a huge page";
    else if (mode >= GF_ARRAY_LEN(system) || system[mode])
        huge.reason =
            mode < GF_ARRAY_LEN(system) ? system[mode] : "the system's setting is unknown";
    else {
        huge.reason = "GPUFEED_PROFILE=training: with huge pages, the first touch of a large block "
                      "takes a quarter of the time";
        huge.on = true;
        pthread_atfork(NULL, NULL, huge_in_child);
    }
}

bool gf_huge_judge(struct gf_huge_guard *guard, uint64_t ns, bool is_huge)
{
    guard->samples++;
    guard->slow += ns >= SLOW_NS;
    guard->small += !is_huge;
    const bool enough = guard->slow >= 3 || guard->small > WINDOW / 2;
    if (guard->samples >= WINDOW && !enough)
        *guard = (struct gf_huge_guard){0};
    return enough;
}

/*
 * Stops advising, and revokes earlier advice. Otherwise the kernel would search for a huge page at
 * each fault in the advised mappings.
 */
static void stop_advising(void)
{
    struct gf_range range;

    huge.reason = huge.guard.slow >= 3 ? "stopped: three of 16 first touches took over 3 ms"
                                       : "stopped: the kernel finds no huge pages";
    gf_store_release(&huge.stopped, true);
    for (size_t i = 0; gf_mappings_at(i, &range); i++)
        if (range.size >= GF_HUGE_MIN)
            syscall(SYS_madvise, range.start, range.size, MADV_NOHUGEPAGE);
}

static void judge_sample(uint64_t ns, bool is_huge)
{
    if (gf_load_relaxed(&huge.stopped) || gf_exchange_acquire(&huge.judging, true))
        return;
    if (gf_huge_judge(&huge.guard, ns, is_huge))
        stop_advising();
    else
        gf_store_release(&huge.judging, false);
}

/*
 * Uses the sample only if all large mappings were advised. In a mapping without advice, a small
 * page would not show that the kernel lacks huge pages.
 */
void gf_huge_touched(uint64_t ns, bool is_huge)
{
    const uint64_t advised = gf_load_relaxed(&huge.advised);

    if (huge.on && advised && advised == gf_load_relaxed(&huge.asked))
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
    const bool is_huge = gf_presence_page(page + GF_HUGE_PAGE - (size_t)sysconf(_SC_PAGESIZE));
    const bool good = is_huge && ns < SLOW_NS;

    if (!good)
        syscall(SYS_madvise, page, GF_HUGE_PAGE, MADV_NOHUGEPAGE);
    judge_sample(ns, is_huge);
    return good;
}

void gf_huge_mapped(void *start, size_t size)
{
    const uintptr_t begin = (uintptr_t)start, end = begin + size;
    const uintptr_t page = (begin + GF_HUGE_PAGE - 1) & ~(uintptr_t)(GF_HUGE_PAGE - 1);

    if (gf_likely(size < GF_HUGE_MIN || !huge.on) || gf_load_relaxed(&huge.stopped))
        return;
    gf_add_relaxed(&huge.asked, size);
    if (page + GF_HUGE_PAGE <= end && try_one(page) && !gf_load_relaxed(&huge.stopped) &&
        syscall(SYS_madvise, start, size, MADV_HUGEPAGE) == 0)
        gf_add_relaxed(&huge.advised, size);
}

void gf_huge_grown(void *start, size_t before, size_t after)
{
    const size_t size = before < GF_HUGE_MIN ? after : after - before;

    if (gf_likely(after < GF_HUGE_MIN || !huge.on) || gf_load_relaxed(&huge.stopped))
        return;
    gf_add_relaxed(&huge.asked, size);
    if (before >= GF_HUGE_MIN || syscall(SYS_madvise, start, after, MADV_HUGEPAGE) == 0)
        gf_add_relaxed(&huge.advised, size);
}

void gf_huge_read(struct gf_heap_huge *ret)
{
    *ret = (struct gf_heap_huge){
        .on = huge.on && !gf_load_acquire(&huge.stopped),
        .reason = huge.reason,
        .asked_bytes = gf_load_relaxed(&huge.asked),
        .advised_bytes = gf_load_relaxed(&huge.advised),
    };
}
