/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/reclaim_policy.h"

#define MIB (UINT64_C(1) << 20)
#define SECOND UINT64_C(1000000000)

#define LITTLE GF_RECLAIM_LITTLE

static bool has_increased(uint64_t now, uint64_t before)
{
    return now != GF_PRESSURE_UNKNOWN && before != GF_PRESSURE_UNKNOWN && now > before;
}

/*
 * Whether some task waited for memory during at least a tenth of the interval between the readings.
 */
static bool is_stalled(const struct gf_reclaim_reading *now, const struct gf_reclaim_reading *last)
{
    const uint64_t interval_us = (now->now_ns - last->now_ns) / 1000;
    return has_increased(now->pressure.stalled_us, last->pressure.stalled_us) && interval_us > 0 &&
           (now->pressure.stalled_us - last->pressure.stalled_us) * 10 >= interval_us;
}

/*
 * Whether the retained pages must be purged. That the group reached its limit is not sufficient,
 * because the page cache of a group that reads files always grows to the limit. The headroom must
 * be small as well.
 */
static bool must_purge(const struct gf_reclaim_reading *now, const struct gf_reclaim_reading *last)
{
    const bool tight = now->headroom.bytes < now->retained;
    const bool exhausted = now->headroom.bytes < gf_max(now->retained / 8, LITTLE);

    return has_increased(now->pressure.killed, last->pressure.killed) || exhausted ||
           (tight && (has_increased(now->pressure.limited, last->pressure.limited) ||
                      is_stalled(now, last)));
}

static bool may_free_lazily(const struct gf_reclaim *reclaim, const struct gf_reclaim_reading *now,
                            const struct gf_reclaim_reading *last)
{
    return now->headroom.bytes / 2 < now->dirty || is_stalled(now, last) ||
           has_increased(now->pressure.limited, last->pressure.limited) ||
           (reclaim->idle_since_ns && now->now_ns - reclaim->idle_since_ns >= SECOND);
}

static void note_idle(struct gf_reclaim *reclaim, const struct gf_reclaim_reading *now)
{
    if (!now->idle)
        reclaim->idle_since_ns = 0;
    else if (!reclaim->idle_since_ns)
        reclaim->idle_since_ns = reclaim->last.now_ns ? reclaim->last.now_ns : now->now_ns;
}

enum gf_reclaim_step gf_reclaim_feed(struct gf_reclaim *reclaim,
                                     const struct gf_reclaim_reading *now)
{
    const struct gf_reclaim_reading last = reclaim->last.now_ns ? reclaim->last : *now;
    enum gf_reclaim_step step = gf_reclaim_nothing;

    note_idle(reclaim, now);
    reclaim->last = *now;
    if (now->retained >= LITTLE && must_purge(now, &last) &&
        (!reclaim->purged_ns || now->now_ns - reclaim->purged_ns >= SECOND)) {
        reclaim->purged_ns = now->now_ns;
        step = gf_reclaim_purge;
    } else if (now->dirty >= MIB && may_free_lazily(reclaim, now, &last)) {
        step = gf_reclaim_free_lazily;
    }
    if (step != gf_reclaim_nothing)
        reclaim->last.dirty = 0;
    return step;
}

void gf_reclaim_rest(struct gf_reclaim *reclaim)
{
    reclaim->last = (struct gf_reclaim_reading){0};
    reclaim->idle_since_ns = 0;
}

uint64_t gf_reclaim_wait(const struct gf_reclaim *reclaim)
{
    if (reclaim->last.dirty >= LITTLE)
        return SECOND / 10;
    return reclaim->last.retained >= LITTLE ? SECOND / 2 : UINT64_MAX;
}
