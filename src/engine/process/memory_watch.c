/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/memory_watch.h"

#include "host/hint.h"
#include "host/reclaim_policy.h"
#include "engine/process/process_state.h"
#include "engine/process/report_lock.h"
#include "engine/transfer/copy/transfer_ops.h"

/*
 * The time between two checks while the heap keeps more than the start budget. In this time, another
 * process can allocate about 200 MiB.
 */
#define BUSY_NS UINT64_C(100000000)
/* The same while it keeps less, but not little. */
#define IDLE_NS UINT64_C(500000000)
/*
 * The time between two checks while the heap keeps little. Usually the heap wakes the thread before
 * this time has passed, when it keeps more. The time limit is for a wake-up that is lost because it
 * arrives during a check.
 */
#define REST_NS UINT64_C(5000000000)

static struct {
    struct gf_reclaim reclaim;
    uint64_t next_ns;
    _Atomic bool woken; /* the heap sets it: the next call must check */
    /*
     * True if the heap keeps little. The library's thread then does not wake up for checks alone.
     */
    bool resting;
    /* Counted here, because the report may be locked at a reading. */
    uint64_t readings, purges, min_headroom;
} watch = {.min_headroom = UINT64_MAX};

static void read_files(struct gf_reclaim_reading *ret)
{
    const struct gf_placement *placement = gf_process_placement();
    const bool on_node = placement && placement->policy && placement->node >= 0;

    gf_headroom_read("", on_node ? placement->node : -1, &ret->headroom);
    gf_pressure_read("", &ret->pressure);
}

static void report_reading(const struct gf_reclaim_reading *now, bool purged)
{
    struct gf_report_memory *memory = &gf_process.report.memory;

    watch.readings++;
    watch.purges += purged;
    watch.min_headroom = gf_min(watch.min_headroom, now->headroom.bytes);
    if (!gf_report_lock(0))
        return;
    memory->readings = watch.readings;
    memory->purges = watch.purges;
    memory->min_headroom = watch.min_headroom;
    memory->headroom = now->headroom;
    memory->pressure = now->pressure;
    gf_report_unlock();
}

/* Wakes the library's thread. The heap calls it within a call of free. */
static void wake_up(void)
{
    gf_store_release(&watch.woken, true);
    sem_post(&gf_process.wake);
}

/*
 * Checks the memory that the heap keeps. Returns when the next check is due. The heap may wake the
 * thread earlier.
 */
static uint64_t check_kept(uint64_t now_ns)
{
    const struct gf_heap_ops *heap = gf_process.preload->heap;
    struct gf_reclaim_reading now = {.now_ns = now_ns};
    struct gf_heap_retained retained;

    heap->purge_unused();
    heap->retained(&retained);
    if (retained.max_bytes < GF_RECLAIM_LITTLE) {
        heap->watch_retained(wake_up, GF_HEADROOM_UNKNOWN);
        heap->retained(&retained); /* the heap may have kept more before this request */
    }
    watch.resting = retained.max_bytes < GF_RECLAIM_LITTLE;
    if (watch.resting) {
        gf_reclaim_rest(&watch.reclaim);
        return now_ns + REST_NS;
    }
    now.kept = retained.max_bytes;
    read_files(&now);
    const bool purge = gf_reclaim_feed(&watch.reclaim, &now);
    if (purge) {
        heap->purge();
        gf_transfer_memory_is_short();
    }
    report_reading(&now, purge);
    return now_ns + (retained.max_bytes > retained.start ? BUSY_NS : IDLE_NS);
}

void gf_memory_watch_start(void)
{
    const struct gf_heap_ops *heap = gf_process.preload->heap;

    if (heap->watch_retained && gf_process.preload->options->mode == gf_mode_on) {
        struct gf_reclaim_reading now;
        read_files(&now);
        heap->watch_retained(wake_up, now.headroom.bytes);
        gf_hint_publish_engine(gf_process.pid);
    } else {
        watch.next_ns = UINT64_MAX;
    }
}

uint64_t gf_memory_watch_check(uint64_t now_ns)
{
    const uint64_t due_ns = watch.next_ns - (watch.resting ? BUSY_NS : 0);

    if ((gf_exchange_acquire(&watch.woken, false) || now_ns >= due_ns) && !gf_process_dead())
        watch.next_ns = check_kept(now_ns);
    return watch.resting ? watch.next_ns + BUSY_NS : watch.next_ns;
}
