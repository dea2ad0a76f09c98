/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/memory_watch.h"

#include "engine/place/reclaim_policy.h"
#include "engine/process/process_state.h"
#include "engine/process/report_lock.h"
#include "engine/transfer/api/transfer_ops.h"

/*
 * The time between two readings of the heap's counters while the heap retains many dirty pages. In
 * this time, another process can allocate about 200 MiB.
 */
#define BUSY_NS UINT64_C(100000000)
/* The longest time between two readings of headroom and pressure while the heap is not resting. */
#define IDLE_NS UINT64_C(1000000000)
/*
 * The time between two checks while the heap retains little. Usually the heap wakes the thread
 * before this time has passed, when it retains more. The time limit is for a wake-up that is lost
 * because it arrives during a check.
 */
#define REST_NS UINT64_C(5000000000)

static struct {
    struct gf_reclaim reclaim;
    uint64_t next_ns;
    _Atomic bool woken; /* the heap sets it: the next call must check */
    /*
     * True if the heap retains little. The library's thread then does not wake up for checks alone.
     */
    bool resting;
    /* Time of the next reading of headroom and pressure while there are few dirty pages. */
    uint64_t files_ns;
    uint64_t freed, lazily_freed_bytes; /* the heap's counters at the last reading */
} watch;

static bool read_heap(struct gf_reclaim_reading *ret)
{
    struct gf_heap_retained retained;

    gf_process.preload->heap->retained(&retained);
    if (!retained.managed)
        return false;
    ret->retained = retained.max_bytes;
    ret->dirty = gf_min(retained.freed, retained.max_bytes);
    ret->idle =
        retained.freed == watch.freed && retained.lazily_freed_bytes == watch.lazily_freed_bytes;
    return true;
}

static void remember_heap(void)
{
    struct gf_heap_retained retained;

    gf_process.preload->heap->retained(&retained);
    watch.freed = retained.freed;
    watch.lazily_freed_bytes = retained.lazily_freed_bytes;
}

static void read_files(struct gf_reclaim_reading *ret)
{
    const struct gf_placement *placement = gf_process_placement();
    const bool on_node = placement && placement->policy && placement->node >= 0;

    gf_headroom_read("", on_node ? placement->node : -1, &ret->headroom);
    gf_pressure_read("", &ret->pressure);
}

static void report_reading(const struct gf_reclaim_reading *now, enum gf_reclaim_step step)
{
    struct gf_report_memory *memory = &gf_process.report.memory;

    if (!gf_report_lock(0))
        return;
    memory->readings++;
    memory->lazy_frees += step == gf_reclaim_free_lazily;
    memory->purges += step == gf_reclaim_purge;
    memory->headroom = now->headroom;
    memory->pressure = now->pressure;
    memory->min_headroom =
        gf_min(memory->readings == 1 ? UINT64_MAX : memory->min_headroom, now->headroom.bytes);
    gf_report_unlock();
}

/* Wakes the library's thread. The heap calls it within a call of free. */
static void wake_up(void)
{
    gf_store_release(&watch.woken, true);
    sem_post(&gf_process.wake);
}

/*
 * Checks the retained memory. Returns when the next check is due. The heap may wake the thread
 * earlier.
 */
static uint64_t check_retained(uint64_t now_ns)
{
    const struct gf_heap_ops *heap = gf_process.preload->heap;
    struct gf_reclaim_reading now = {.now_ns = now_ns};

    if (!read_heap(&now))
        return UINT64_MAX;
    if (now.dirty < GF_RECLAIM_LITTLE) {
        heap->watch_retained(wake_up);
        read_heap(&now);
    }
    watch.resting = now.retained < GF_RECLAIM_LITTLE;
    if (watch.resting) {
        gf_reclaim_rest(&watch.reclaim);
        return now_ns + REST_NS;
    }
    if (now.dirty < GF_RECLAIM_LITTLE && now_ns < watch.files_ns)
        return watch.files_ns;
    read_files(&now);
    heap->tell_headroom(now.headroom.bytes);
    const enum gf_reclaim_step step = gf_reclaim_feed(&watch.reclaim, &now);
    if (step == gf_reclaim_free_lazily)
        heap->free_lazily();
    else if (step == gf_reclaim_purge) {
        heap->purge();
        gf_transfer_memory_is_short();
    }
    heap->purge_unused();
    /* So that the changes made by this step do not count as activity of the program. */
    remember_heap();
    report_reading(&now, step);
    watch.files_ns = now_ns + gf_min(gf_reclaim_wait(&watch.reclaim), IDLE_NS);
    return now.dirty < GF_RECLAIM_LITTLE ? watch.files_ns : now_ns + BUSY_NS;
}

void gf_memory_watch_start(void)
{
    const struct gf_heap_ops *heap = gf_process.preload->heap;

    if (heap->watch_retained && gf_process.preload->options->mode == gf_mode_on)
        heap->watch_retained(wake_up);
    else
        watch.next_ns = UINT64_MAX;
}

uint64_t gf_memory_watch_check(uint64_t now_ns)
{
    const uint64_t due_ns = watch.next_ns - (watch.resting ? BUSY_NS : 0);

    if ((gf_exchange_acquire(&watch.woken, false) || now_ns >= due_ns) && !gf_process_dead())
        watch.next_ns = check_retained(now_ns);
    return watch.resting ? watch.next_ns + BUSY_NS : watch.next_ns;
}
