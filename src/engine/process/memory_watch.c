/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/memory_watch.h"

#include "engine/place/reclaim_policy.h"
#include "engine/process/process_state.h"
#include "engine/process/report_lock.h"
#include "engine/transfer/api/transfer_ops.h"

/*
 * The time between readings of the heap's counters while much is dirty. Meanwhile another process
 * can allocate about 200 MiB.
 */
#define BUSY_NS UINT64_C(100000000)
/* The longest time between readings of headroom and pressure. */
#define IDLE_NS UINT64_C(1000000000)
/*
 * The time between checks while little is retained. The heap wakes the thread earlier; this
 * interval covers a wake-up that came during a check.
 */
#define REST_NS UINT64_C(5000000000)

static struct {
    struct gf_reclaim reclaim;
    uint64_t next_ns;
    _Atomic bool woken; /* set by the heap: check at once */
    bool resting;       /* little is retained: checks only when the thread runs for other reasons */
    uint64_t files_ns;  /* when to read headroom and pressure next, while little is dirty */
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

/* The heap calls this within a free. */
static void wake_up(void)
{
    gf_store_release(&watch.woken, true);
    sem_post(&gf_process.wake);
}

/* Returns when the next check is due. The heap may wake the thread earlier. */
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
    const enum gf_reclaim_step step = gf_reclaim_feed(&watch.reclaim, &now);
    if (step == gf_reclaim_free_lazily)
        heap->free_lazily();
    else if (step == gf_reclaim_purge) {
        heap->purge();
        gf_transfer_memory_is_short();
    }
    heap->purge_unused();
    remember_heap(); /* so that this step does not count as activity of the program */
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
