/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/pages/first_touch.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "preload/heap/pages/budget.h"
#include "preload/heap/pages/huge.h"
#include "preload/heap/pages/mappings.h"
#include "preload/heap/pages/presence.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

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
    _Atomic uint64_t timed, timed_ns;
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
        could && gf_presence_page(other) && gf_presence_page(whole + GF_HUGE_PAGE - small);

    if (could && size >= GF_HUGE_MIN)
        gf_huge_touched(ns, huge);
    gf_store_relaxed(&touch.ns_per_mib, ns * (MIB / small) / (huge ? GF_HUGE_PAGE / small : 1));
    gf_add_relaxed(&touch.timed, 1);
    gf_add_relaxed(&touch.timed_ns, ns);
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
        if (!gf_presence_page(at)) {
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
    const int error = errno;
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
    errno = error;
}

void gf_first_touch_freed(void *start, size_t size, size_t block)
{
    const uint64_t weight = sample_weight(&touch.turn_freed, block);
    const int error = errno;
    uintptr_t missing;

    if (!weight)
        return;
    const uint64_t count = count_missing((uintptr_t)start, size, &missing);
    gf_add_relaxed(&touch.untouched_bytes, size / PROBES * count * weight);
    errno = error;
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
