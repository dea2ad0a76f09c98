/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/reclaim.h"

#include "base/clock.h"
#include "os/own_table.h"
#include "preload/heap/big_pool.h"
#include "preload/heap/jemalloc.h"
#include "preload/heap/jemalloc_replaced.h"
#include "preload/heap/jemalloc_sys.h"
#include "preload/heap/mappings.h"
#include "preload/heap/mode.h"

#include <sys/resource.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

/*
 * The start budgets, and what a forked child of a process with an engine may earn. docs/safety.md
 * promises slightly more, for jemalloc's own data and the caches of threads.
 */
#define START_ENGINE (60 * MIB)
#define START_ALONE (7 * MIB)
#define START_CHILD (4 * MIB)
#define CHILD_MOST (56 * MIB)
/* An engine's start budget is at most this part of the headroom. */
#define START_SHARE 16
/* The engine is woken when the heap keeps this much. Below that, it need not watch. */
#define LITTLE (32 * MIB)
/* A forked child purges inherited free pages of jemalloc if there are at least this many bytes. */
#define CHILD_MIN (16 * MIB)
/* Pages are purged in steps, so that not each free makes a system call. */
#define STEP_MIN ((int64_t)MIB / 4)
#define STEP_MAX ((int64_t)MIB * 4)
#define ROUNDS 4

static struct {
    _Atomic int64_t claimed;               /* bytes of excess pages that threads purge now */
    _Atomic bool watched;                  /* an engine of this process checks regularly */
    void (*_Atomic wake)(void);            /* wakes the engine once; NULL: it is awake */
    _Atomic bool limited_as, limited_data; /* RLIMIT_AS or RLIMIT_DATA is finite */
    uint64_t start, most;                  /* the limits without such a limit */
    pid_t process;                         /* whose fork handlers have run */
    _Atomic uint64_t purges, excess_purged;
} reclaim;

bool gf_reclaim_is_limited(void)
{
    return gf_load_relaxed(&reclaim.limited_as) || gf_load_relaxed(&reclaim.limited_data);
}

static void begin_budget(uint64_t start, uint64_t most)
{
    const bool limited = gf_reclaim_is_limited();

    reclaim.start = start;
    reclaim.most = most;
    gf_budget_begin(&gf_budget, limited ? 0 : start, limited ? 0 : most, gf_coarse_ns());
}

static void wake_engine(void)
{
    void (*wake)(void) = gf_load_relaxed(&reclaim.wake);

    if (!wake || gf_budget_kept(&gf_budget) < (int64_t)LITTLE)
        return;
    wake = gf_exchange_acq_rel(&reclaim.wake, NULL);
    gf_store_relaxed(&gf_budget.check_at, gf_load_relaxed(&gf_budget.start));
    if (wake)
        wake();
}

static uint64_t excess(void)
{
    return gf_budget_excess(&gf_budget, gf_coarse_ns());
}

/* Claims a part of the excess for this thread. Returns its bytes, or 0. */
static int64_t claim(int64_t step)
{
    int64_t claimed = gf_load_relaxed(&reclaim.claimed), over;

    do { /* negative: a handler forked within purge_pages, and this is the child */
        over = (int64_t)excess() - gf_max(claimed, 0);
        if (over <= 0 || gf_load_relaxed(&gf_budget.unmanaged))
            return 0;
    } while (!gf_cas_weak_relaxed(&reclaim.claimed, &claimed, claimed + over + step));
    return over;
}

/*
 * Each thread purges what exceeds the budget beyond the parts that other threads have claimed, so that
 * one call of free does not work for all threads. jemalloc skips an arena that another thread purges at
 * this time. So a thread that has purged looks for more, but at most ROUNDS times.
 */
static void purge_pages(void)
{
    const int64_t step = gf_min(gf_max(gf_load_relaxed(&gf_budget.start) / 8, STEP_MIN), STEP_MAX);
    uint64_t purged = 1;
    int64_t over;

    for (unsigned round = 0; round < ROUNDS && purged > 0 && (over = claim(step)) > 0; round++) {
        purged = gf_evict((uint64_t)over, (uint64_t)step);
        gf_sub_relaxed(&reclaim.claimed, over + step);
        gf_add_relaxed(&reclaim.excess_purged, purged);
    }
}

static void drop_mappings(void)
{
    size_t dropped = 1;

    for (uint64_t over; dropped > 0 && (over = excess()) > 0;) {
        dropped = gf_pool_drop(over);
        gf_add_relaxed(&reclaim.excess_purged, dropped);
    }
}

void gf_reclaim_now(enum gf_reclaim_kind newest)
{
    gf_keep_errno();

    if (gf_strict)
        return;
    if (newest == gf_reclaim_mappings)
        gf_pool_count();
    else
        drop_mappings();
    purge_pages();
    if (newest == gf_reclaim_mappings)
        drop_mappings();
    wake_engine(); /* last: the engine's thread must not purge what this thread is about to purge */
}

bool gf_reclaim_all(void)
{
    gf_keep_errno();
    const uint64_t before = gf_load_relaxed(&gf_budget.purged);

    while (gf_pool_drop(UINT64_MAX))
        ;
    gf_evict(UINT64_MAX, 0);
    return gf_load_relaxed(&gf_budget.purged) != before;
}

/*
 * A signal handler may have interrupted this thread while it holds a lock. In a child of _Fork, other
 * threads of the parent may hold the locks for ever.
 */
bool gf_reclaim_for_call(void)
{
    return !gf_locks && reclaim.process == getpid() && gf_reclaim_all();
}

static uint64_t soft_limit(__rlimit_resource_t resource)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

uint64_t gf_reclaim_read_limits(void)
{
    const uint64_t space = soft_limit(RLIMIT_AS), data = soft_limit(RLIMIT_DATA);

    gf_store_relaxed(&reclaim.limited_as, space != RLIM_INFINITY);
    gf_store_relaxed(&reclaim.limited_data, data != RLIM_INFINITY);
    return gf_min(space, data);
}

void gf_reclaim_init(bool managed, bool engines_child)
{
    reclaim.process = getpid();
    gf_store_relaxed(&gf_budget.unmanaged, !managed);
    if (je_opt_dirty_decay_ms == 0)
        begin_budget(0, 0); /* the user wants nothing to be kept */
    else
        begin_budget(engines_child ? START_CHILD : START_ALONE, engines_child ? CHILD_MOST : 0);
    if (gf_reclaim_is_limited())
        __atomic_store_n(&je_opt_retain, false, __ATOMIC_RELAXED);
}

bool gf_reclaim_managed(void)
{
    return !gf_load_relaxed(&gf_budget.unmanaged);
}

void gf_reclaim_limit(int resource, uint64_t soft)
{
    const bool before = gf_reclaim_is_limited();

    if (!gf_mode_is_jemalloc())
        return;
    if (resource == RLIMIT_AS)
        gf_store_relaxed(&reclaim.limited_as, soft != RLIM_INFINITY);
    else if (resource == RLIMIT_DATA)
        gf_store_relaxed(&reclaim.limited_data, soft != RLIM_INFINITY);
    if (gf_reclaim_is_limited() == before)
        return;
    if (!before)
        __atomic_store_n(&je_opt_retain, false, __ATOMIC_RELAXED);
    begin_budget(reclaim.start, reclaim.most);
    if (!before)
        gf_reclaim_for_call();
}

void gf_reclaim_in_child(void)
{
    gf_keep_errno();
    const bool earns = gf_load_relaxed(&reclaim.watched) || reclaim.most;

    gf_own_table_in_child();
    if (reclaim.process) /* otherwise another allocator serves malloc */
        reclaim.process = getpid();
    gf_pool_in_child();
    gf_store_relaxed(&reclaim.claimed, 0);
    gf_store_relaxed(&reclaim.watched, false);
    gf_store_relaxed(&reclaim.wake, NULL);
    gf_store_relaxed(&gf_budget.trim, -1);
    begin_budget(gf_min(reclaim.start, START_CHILD), earns ? CHILD_MOST : 0);
    /* If a signal handler that interrupted the holder of a lock made the fork, the pool stays as it is. */
    if (!gf_locks) {
        gf_monitored_call_hide(true);
        while (gf_pool_drop(UINT64_MAX))
            ;
        if (gf_unlikely(gf_load_relaxed(&gf_budget.heap) >= (int64_t)CHILD_MIN) &&
            gf_reclaim_managed())
            gf_evict(UINT64_MAX, 0);
        gf_monitored_call_hide(false);
    }
}

void gf_reclaim_watch(void (*wake)(void), uint64_t headroom)
{
    const uint64_t most = gf_max(gf_min(headroom / START_SHARE, START_ENGINE), START_ALONE);

    if (!gf_exchange_relaxed(&reclaim.watched, true))
        begin_budget(reclaim.start ? most : 0, INT64_MAX);
    gf_store_release(&reclaim.wake, wake);
    gf_store_relaxed(&gf_budget.check_at,
                     gf_min(gf_load_relaxed(&gf_budget.start), (int64_t)LITTLE - 1));
}

void gf_reclaim_purge(void)
{
    gf_add_relaxed(&reclaim.purges, 1);
    gf_reclaim_all();
}

void gf_reclaim_unused(void)
{
    gf_reclaim_now(gf_reclaim_mappings);
}

void gf_reclaim_read(struct gf_heap_retained *ret)
{
    const int64_t heap = gf_load_relaxed(&gf_budget.heap), pool = gf_load_relaxed(&gf_budget.pool);

    *ret = (struct gf_heap_retained){
        .managed = gf_reclaim_managed(),
        .max_bytes = (uint64_t)(gf_max(heap, 0) + gf_max(pool, 0)),
        .limit = gf_budget_allowed(&gf_budget, gf_coarse_ns()),
        .start = (uint64_t)gf_load_relaxed(&gf_budget.start),
        .excess_purged = gf_load_relaxed(&reclaim.excess_purged),
        .purges = gf_load_relaxed(&reclaim.purges),
        .lazily_freed_bytes = gf_load_relaxed(&gf_budget.lazily_freed),
        .purged_bytes = gf_load_relaxed(&gf_budget.purged),
    };
}
