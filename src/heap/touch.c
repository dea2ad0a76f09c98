/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/touch.h"

#include "base/clock.h"
#include "heap/huge.h"
#include "heap/system.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)
#define PROBES 4
/* From here on every block is looked at; of smaller ones one in so many. */
#define ALWAYS (16 * MIB)
#define ONE_IN 64
#define GAP_NS UINT64_C(10000000) /* between two faults that are timed */

static struct {
    _Alignas(64) uint64_t turn, turn_back; /* apart: who takes and frees in turn would meet one of them alone */
    uint64_t looks, missing_bytes;
    uint64_t untouched_bytes; /* of these, when they were given back */
    uint64_t timed, timed_ns;
    uint64_t due_ns;     /* when the next fault is timed */
    uint64_t ns_per_mib; /* of the latest */
    uint64_t us;
} touch;

static bool is_there(uintptr_t page)
{
    unsigned char there = 1;
    syscall(SYS_mincore, page, 1UL, &there);
    return there & 1;
}

/* The page is missing, so it reads as zero, or as nothing that malloc promised to anybody. */
static void time_one(uintptr_t page, const uintptr_t start, size_t size)
{
    const uintptr_t whole = page & ~(uintptr_t)(GF_HUGE_PAGE - 1);
    const size_t small = (size_t)sysconf(_SC_PAGESIZE);
    const uint64_t begun = gf_thread_cpu_ns();
    *(volatile char *)page = 0;
    const uint64_t ns = gf_thread_cpu_ns() - begun;
    const uintptr_t other = page == whole ? page + small : whole;
    const bool could = whole >= start && whole + GF_HUGE_PAGE <= start + size;
    const bool huge = could && is_there(other) && is_there(whole + GF_HUGE_PAGE - small);

    if (could && size >= GF_HUGE_LEAST)
        gf_huge_touched(ns, huge);
    __atomic_store_n(&touch.ns_per_mib, ns * (MIB / small) / (huge ? GF_HUGE_PAGE / small : 1),
                     __ATOMIC_RELAXED);
    __atomic_fetch_add(&touch.timed, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&touch.timed_ns, ns, __ATOMIC_RELAXED);
}

static bool is_due(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &at);
    const uint64_t now = (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
    uint64_t due = __atomic_load_n(&touch.due_ns, __ATOMIC_RELAXED);

    return now >= due && __atomic_compare_exchange_n(&touch.due_ns, &due, now + GAP_NS, false,
                                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Of PROBES pages, and one of them. */
static uint64_t count_missing(uintptr_t start, size_t size, uintptr_t *ret_one)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uint64_t count = 0;

    for (size_t i = 0; i < PROBES; i++) {
        const uintptr_t at = (start + size / PROBES * i + size / PROBES / 2) & ~(page - 1);
        if (!is_there(at)) {
            *ret_one = at;
            count++;
        }
    }
    return count;
}

/* How many blocks this one stands for; 0: it is not looked at. */
static uint64_t weigh(uint64_t *turn, size_t block)
{
    if (block >= ALWAYS)
        return 1;
    return __atomic_fetch_add(turn, 1, __ATOMIC_RELAXED) % ONE_IN ? 0 : ONE_IN;
}

void gf_touch_given(void *start, size_t size, size_t block)
{
    const uint64_t weight = weigh(&touch.turn, block);
    const int error = errno;
    uintptr_t missing;

    if (!weight)
        return;
    const uint64_t count = count_missing((uintptr_t)start, size, &missing);
    __atomic_fetch_add(&touch.looks, 1, __ATOMIC_RELAXED);
    if (count) {
        if (is_due())
            time_one(missing, (uintptr_t)start, size);
        const uint64_t bytes = size / PROBES * count * weight;
        __atomic_fetch_add(&touch.missing_bytes, bytes, __ATOMIC_RELAXED);
        __atomic_fetch_add(&touch.us,
                           bytes / 1024 * __atomic_load_n(&touch.ns_per_mib, __ATOMIC_RELAXED) / 1024 / 1000,
                           __ATOMIC_RELAXED);
    }
    errno = error;
}

void gf_touch_back(void *start, size_t size, size_t block)
{
    const uint64_t weight = weigh(&touch.turn_back, block);
    const int error = errno;
    uintptr_t missing;

    if (!weight)
        return;
    const uint64_t count = count_missing((uintptr_t)start, size, &missing);
    __atomic_fetch_add(&touch.untouched_bytes, size / PROBES * count * weight, __ATOMIC_RELAXED);
    errno = error;
}

void gf_touch_read(struct gf_heap_touch *ret)
{
    const uint64_t all = __atomic_load_n(&touch.missing_bytes, __ATOMIC_RELAXED);
    /* By samples of their own: may be more. */
    const uint64_t missing = all - gf_min(all, __atomic_load_n(&touch.untouched_bytes, __ATOMIC_RELAXED));
    const uint64_t us = __atomic_load_n(&touch.us, __ATOMIC_RELAXED);
    const uint64_t first = gf_min(missing, gf_system_mapped());

    *ret = (struct gf_heap_touch){
        .looks = __atomic_load_n(&touch.looks, __ATOMIC_RELAXED),
        .timed = __atomic_load_n(&touch.timed, __ATOMIC_RELAXED),
        .missing_bytes = missing,
        /* Not more than was lent or given back at all. */
        .again_bytes = gf_min(missing - first, gf_system_lent() + gf_system_given_back()),
        .us = all ? (uint64_t)((double)us * (double)missing / (double)all) : 0,
        .ns_per_mib = __atomic_load_n(&touch.ns_per_mib, __ATOMIC_RELAXED),
    };
}
