/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/huge.h"

#include "base/clock.h"
#include "heap/jemalloc.h"
#include "heap/slow.h"
#include "heap/system.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 512 small faults take one to three milliseconds; zeroing a huge page a fraction of one. */
#define SLOW_NS UINT64_C(3000000)
#define WINDOW 16

static struct {
    bool on;
    bool stopped;
    uint64_t asked, advised;
    struct gf_huge_guard guard;
    bool judging;
    const char *reason;
} huge = {.reason = "the heap is starting"};

void gf_huge_init(const struct gf_options *options)
{
    /* jemalloc's enum: by madvise, always, never, not supported. */
    static const char *const system[] = {NULL, "the system gives them to everybody",
                                         "the system gives them to nobody", "the system has none"};
    const unsigned mode = (unsigned)je_init_system_thp_mode;

    if (options->profile == gf_profile_inference)
        huge.reason = "GPUFEED_PROFILE=inference: a search for them would be waited for";
    else if (mode >= GF_ARRAY_LEN(system) || system[mode])
        huge.reason =
            mode < GF_ARRAY_LEN(system) ? system[mode] : "the system's setting is unknown";
    else {
        huge.reason = "GPUFEED_PROFILE=training: a large block's first touch takes a quarter";
        huge.on = true;
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

/* What was advised would be searched for at each fault for ever. */
static void stop(void)
{
    struct gf_range range;

    huge.reason = huge.guard.slow >= 3 ? "stopped: three of 16 first touches took over 3 ms"
                                       : "stopped: the kernel finds no huge pages";
    __atomic_store_n(&huge.stopped, true, __ATOMIC_RELEASE);
    for (size_t i = 0; gf_system_range(i, &range); i++)
        if (range.size >= GF_HUGE_LEAST)
            syscall(SYS_madvise, range.start, range.size, MADV_NOHUGEPAGE);
}

static void judge(uint64_t ns, bool is_huge)
{
    if (__atomic_load_n(&huge.stopped, __ATOMIC_RELAXED) ||
        __atomic_exchange_n(&huge.judging, true, __ATOMIC_ACQUIRE))
        return;
    if (gf_huge_judge(&huge.guard, ns, is_huge))
        stop();
    else
        __atomic_store_n(&huge.judging, false, __ATOMIC_RELEASE);
}

/* Where some mappings were not advised, small pages are no surprise. */
void gf_huge_touched(uint64_t ns, bool is_huge)
{
    const uint64_t advised = __atomic_load_n(&huge.advised, __ATOMIC_RELAXED);

    if (huge.on && advised && advised == __atomic_load_n(&huge.asked, __ATOMIC_RELAXED))
        judge(ns, is_huge);
}

static bool is_there(uintptr_t page)
{
    unsigned char there = 0;
    return syscall(SYS_mincore, page, 1UL, &there) == 0 && (there & 1);
}

/*
 * One huge page of it, before the rest is promised any: where the kernel has to look long for it,
 * or a hypervisor for its memory, the whole block would take as long, page by page.
 */
static bool try_one(uintptr_t page)
{
    if (syscall(SYS_madvise, page, GF_HUGE_PAGE, MADV_HUGEPAGE) != 0)
        return false;
    gf_slow_before_huge();
    const struct gf_slow_mark mark = gf_slow_begin(gf_slow_huge);
    const uint64_t begun = gf_thread_cpu_ns();
    *(volatile char *)page = 0;
    const uint64_t ns = gf_thread_cpu_ns() - begun;
    gf_slow_end(&mark, gf_slow_huge, GF_HUGE_PAGE);
    const bool is_huge = is_there(page + GF_HUGE_PAGE - (size_t)sysconf(_SC_PAGESIZE));
    const bool good = is_huge && ns < SLOW_NS;

    if (!good)
        syscall(SYS_madvise, page, GF_HUGE_PAGE, MADV_NOHUGEPAGE);
    judge(ns, is_huge);
    return good;
}

void gf_huge_mapped(void *start, size_t size, int protection)
{
    const uintptr_t begin = (uintptr_t)start, end = begin + size;
    const uintptr_t page = (begin + GF_HUGE_PAGE - 1) & ~(uintptr_t)(GF_HUGE_PAGE - 1);

    if (gf_likely(size < GF_HUGE_LEAST || !huge.on) || !(protection & PROT_WRITE) ||
        __atomic_load_n(&huge.stopped, __ATOMIC_RELAXED))
        return;
    __atomic_fetch_add(&huge.asked, size, __ATOMIC_RELAXED);
    if (page + GF_HUGE_PAGE <= end && try_one(page) &&
        !__atomic_load_n(&huge.stopped, __ATOMIC_RELAXED) &&
        syscall(SYS_madvise, start, size, MADV_HUGEPAGE) == 0)
        __atomic_fetch_add(&huge.advised, size, __ATOMIC_RELAXED);
}

void gf_huge_read(struct gf_heap_huge *ret)
{
    *ret = (struct gf_heap_huge){
        .on = huge.on && !__atomic_load_n(&huge.stopped, __ATOMIC_ACQUIRE),
        .reason = huge.reason,
        .asked_bytes = __atomic_load_n(&huge.asked, __ATOMIC_RELAXED),
        .advised_bytes = __atomic_load_n(&huge.advised, __ATOMIC_RELAXED),
    };
}
