/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch on memory: what the heap keeps of freed pages is lent or given back before anybody
 * else goes short of it. On our thread only.
 */
#include "engine/state.h"

#include "base/clock.h"
#include "place/squeeze.h"

static struct {
    struct gf_squeeze squeeze;
    uint64_t next_ns;
    bool woken;                 /* by the heap: at once, then */
    bool resting;               /* until then: it looks when the thread is up anyway */
    uint64_t host_ns;           /* when the files are due again, while little is dirty */
    uint64_t freed, lent_bytes; /* at the reading before */
} watch;

/* A sibling can take 200 MiB in this time. The heap's own numbers, which need no system call. */
#define SOON_NS UINT64_C(100000000)
#define LATER_NS UINT64_C(1000000000)
/* While the heap will say when there is more: in case it said so while we looked. */
#define RARELY_NS UINT64_C(5000000000)

static bool read_heap(struct gf_squeeze_reading *ret)
{
    struct gf_heap_kept kept;

    gf_process.door->heap->kept(&kept);
    if (!kept.ours)
        return false;
    ret->kept = kept.most;
    ret->dirty = gf_min(kept.freed, kept.most);
    ret->idle = kept.freed == watch.freed && kept.lent_bytes == watch.lent_bytes;
    return true;
}

static void remember_heap(void)
{
    struct gf_heap_kept kept;

    gf_process.door->heap->kept(&kept);
    watch.freed = kept.freed;
    watch.lent_bytes = kept.lent_bytes;
}

/* Files are read only where there is something to part with. */
static void read_host(struct gf_squeeze_reading *ret)
{
    const struct gf_placement *placement = gf_placement();
    const bool here = placement && placement->policy && placement->node >= 0;

    gf_headroom_read("", here ? placement->node : -1, &ret->room);
    gf_pressure_read("", &ret->pressure);
}

static void take_down(const struct gf_squeeze_reading *now, enum gf_squeeze_step step)
{
    struct gf_report_memory *memory = &gf_process.report.memory;

    if (!gf_pen_take(0))
        return;
    memory->watched = true;
    memory->looks++;
    memory->lends += step == gf_squeeze_lend;
    memory->give_backs += step == gf_squeeze_give_back;
    memory->room = now->room;
    memory->pressure = now->pressure;
    memory->least_room =
        gf_min(memory->looks == 1 ? UINT64_MAX : memory->least_room, now->room.bytes);
    gf_pen_give();
}

/* From the heap, within a free. */
static void wake(void)
{
    __atomic_store_n(&watch.woken, true, __ATOMIC_RELEASE);
    sem_post(&gf_process.wake);
}

/* When to look again; sooner where the heap wakes us, which it does once much is dirty. */
static uint64_t look(uint64_t now_ns)
{
    const struct gf_heap_ops *heap = gf_process.door->heap;
    struct gf_squeeze_reading now = {.now_ns = now_ns};

    if (!read_heap(&now))
        return UINT64_MAX;
    if (now.dirty < GF_SQUEEZE_LITTLE) {
        heap->watched(wake);
        read_heap(&now);
    }
    watch.resting = now.kept < GF_SQUEEZE_LITTLE;
    if (watch.resting) {
        gf_squeeze_rest(&watch.squeeze);
        return now_ns + RARELY_NS;
    }
    if (now.dirty < GF_SQUEEZE_LITTLE && now_ns < watch.host_ns)
        return watch.host_ns;
    read_host(&now);
    const enum gf_squeeze_step step = gf_squeeze_feed(&watch.squeeze, &now);
    if (step == gf_squeeze_lend)
        heap->lend();
    else if (step == gf_squeeze_give_back)
        heap->give_back();
    remember_heap(); /* what we did is not the program's doing */
    take_down(&now, step);
    watch.host_ns = now_ns + gf_min(gf_squeeze_wait(&watch.squeeze), LATER_NS);
    return now.dirty < GF_SQUEEZE_LITTLE ? watch.host_ns : now_ns + SOON_NS;
}

void gf_keep_start(void)
{
    const struct gf_heap_ops *heap = gf_process.door->heap;

    if (heap->watched && gf_process.door->options->mode == gf_mode_on)
        heap->watched(wake);
    else
        watch.next_ns = UINT64_MAX;
}

uint64_t gf_keep_watch(uint64_t now)
{
    const uint64_t due_ns = watch.next_ns - (watch.resting ? SOON_NS : 0);

    if ((__atomic_exchange_n(&watch.woken, false, __ATOMIC_ACQUIRE) || now >= due_ns) && !gf_dead())
        watch.next_ns = look(now);
    return watch.resting ? watch.next_ns + SOON_NS : watch.next_ns;
}
