/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/pages/purge_unused.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "preload/heap/jemalloc/jemalloc.h"
#include "preload/heap/pages/page_counts.h"
#include "preload/heap/pages/retain.h"
#include "preload/heap/pages/unused.h"

#include <errno.h>

#define MIB (UINT64_C(1) << 20)
#define MS UINT64_C(1000000)

#define WINDOW_NS (10000 * MS) /* pages are purged one to two windows after they were freed */
#define ROUND_NS (1000 * MS)   /* the time between rounds */
/*
 * The time to the next round if the last round purged more than half of the bytes that it was
 * allowed to purge.
 */
#define PART_NS (50 * MS)
/*
 * The bytes that a round may purge for each PART_NS since the last round, at most PART_MAX. Purging
 * PART bytes takes 1 to 2 ms, within a call of malloc.
 */
#define PART (16 * MIB)
#define PART_MAX (128 * MIB)
/* If a process keeps fewer bytes of free pages than this, no round is made. */
#define LITTLE (32 * MIB)

/*
 * Bytes that a thread allocates before its first event, and at least and at most between two
 * events.
 */
#define WAIT_FIRST (UINT64_C(64) << 10)
#define WAIT_MIN (UINT64_C(16) << 10)
#define WAIT_MAX (4 * MIB)
/* The most bytes to the next event after the thread has freed pages. */
#define WAIT_SOON (UINT64_C(256) << 10)

static struct {
    _Atomic uint64_t due_ns; /* when the next round is due */
    /* When the current window and the last round began. Used only within a round. */
    uint64_t window_ns, round_ns;
} purge_unused;

__thread uint64_t *gf_purge_unused_left;

/*
 * State of the calling thread's events: pointers to jemalloc's counts, and data on the last event.
 */
static __thread struct {
    const uint64_t *now;
    uint64_t *next, *next_fast;
    uint64_t last_ns; /* the time of the last event */
    /*
     * Bytes to be allocated between the last event and the next one; 0 before the thread's first
     * event.
     */
    uint64_t wait;
} event;

uint64_t gf_purge_unused_first(void)
{
    const bool first = event.wait == 0;

    event.wait = WAIT_FIRST;
    return first ? WAIT_FIRST : UINT64_MAX;
}

static void set_next(uint64_t wait)
{
    const uint64_t next = *event.now + wait;

    event.wait = wait;
    if (*event.next <= next)
        return;
    *event.next = next;
    if (*event.next_fast)
        *event.next_fast = next;
}

/*
 * Adapts the bytes between two events to how fast the thread allocates, so that the thread has
 * about one event per tick of the clock, 1 to 10 ms.
 */
static void schedule(uint64_t passed)
{
    if (passed < MS / 2)
        set_next(gf_min(event.wait * 2, WAIT_MAX));
    else
        set_next(passed > 20 * MS ? WAIT_MIN : event.wait);
}

/*
 * A thread that allocates fast may free a whole batch within one tick of the clock, and then allocate
 * little for minutes. So this tick must not let it wait for WAIT_MAX bytes.
 */
void gf_purge_unused_soon(void)
{
    if (!event.next || event.wait <= WAIT_MIN)
        return;
    if (gf_coarse_ns() != event.last_ns)
        set_next(WAIT_MIN);
    else if (event.wait > WAIT_SOON)
        set_next(WAIT_SOON);
}

uint64_t gf_purge_unused_part(uint64_t passed_ns)
{
    return gf_min(gf_max(passed_ns / PART_NS, 1) * PART, PART_MAX);
}

/* Does a round, and returns the time of the next one. Only one thread at a time is in a round. */
static uint64_t do_round(uint64_t now_ns)
{
    uint64_t left = gf_purge_unused_part(now_ns - purge_unused.round_ns);
    const uint64_t part = left;

    if (now_ns - purge_unused.window_ns >= WINDOW_NS) {
        gf_unused_rotate();
        purge_unused.window_ns = now_ns;
    }
    if (gf_unused_kept() < LITTLE)
        return now_ns + ROUND_NS;
    purge_unused.round_ns = now_ns;
    gf_purge_unused_left = &left;
    je_mallctl("arena.0.decay", NULL, NULL, NULL, 0); /* callouts/evict.c makes a round of it */
    gf_purge_unused_left = NULL;
    gf_add_relaxed(&gf_page_counts.unused_purged, part - left);
    return now_ns + (left < part / 2 ? PART_NS : ROUND_NS);
}

static void do_round_if_due(uint64_t now_ns)
{
    if (now_ns < gf_load_relaxed(&purge_unused.due_ns) || !gf_retain_begin())
        return;
    const int error = errno;
    gf_store_relaxed(&purge_unused.due_ns, do_round(now_ns));
    errno = error;
    gf_retain_end();
}

void gf_purge_unused_event(const struct gf_purge_unused_count *count)
{
    if (!count->allocates || gf_retain_watched() || !gf_retain_managed())
        return;
    event.now = count->now;
    event.next = count->next;
    event.next_fast = count->next_fast;
    const uint64_t now_ns = gf_coarse_ns();
    schedule(now_ns - event.last_ns);
    event.last_ns = now_ns;
    do_round_if_due(now_ns);
}

void gf_purge_unused_now(void)
{
    if (gf_retain_managed())
        do_round_if_due(gf_coarse_ns());
}
