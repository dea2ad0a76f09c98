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
    uint64_t freed, lent_bytes; /* at the reading before */
} watch;

static bool read_heap(struct gf_squeeze_reading *ret)
{
    struct gf_heap_kept kept;

    gf_process.door->heap->kept(&kept);
    if (!kept.ours)
        return false;
    ret->kept = kept.most;
    ret->dirty = gf_min(kept.freed, kept.most);
    ret->idle = kept.freed == watch.freed && kept.lent_bytes == watch.lent_bytes;
    watch.freed = kept.freed;
    watch.lent_bytes = kept.lent_bytes;
    return true;
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

static void look(uint64_t now_ns)
{
    const struct gf_heap_ops *heap = gf_process.door->heap;
    struct gf_squeeze_reading now = {.now_ns = now_ns};

    if (!read_heap(&now)) {
        watch.next_ns = UINT64_MAX;
        return;
    }
    if (now.kept < GF_SQUEEZE_LITTLE) {
        gf_squeeze_rest(&watch.squeeze);
        return;
    }
    read_host(&now);
    const enum gf_squeeze_step step = gf_squeeze_feed(&watch.squeeze, &now);
    if (step == gf_squeeze_lend)
        heap->lend();
    else if (step == gf_squeeze_give_back)
        heap->give_back();
    if (step != gf_squeeze_nothing)
        read_heap(&now); /* what we did is not the program's doing */
    take_down(&now, step);
}

void gf_keep_start(void)
{
    const struct gf_heap_ops *heap = gf_process.door->heap;

    if (heap->watched && gf_process.door->options->mode == gf_mode_on)
        heap->watched();
    else
        watch.next_ns = UINT64_MAX;
}

uint64_t gf_keep_watch(uint64_t now)
{
    if (now < watch.next_ns || gf_dead())
        return watch.next_ns;
    watch.next_ns = 0;
    look(now);
    if (watch.next_ns == 0)
        watch.next_ns = now + gf_min(gf_squeeze_wait(&watch.squeeze), UINT64_C(1000000000));
    return watch.next_ns;
}
