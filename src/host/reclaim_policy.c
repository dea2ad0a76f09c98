/* SPDX-License-Identifier: Apache-2.0 */
#include "host/reclaim_policy.h"

#define SECOND UINT64_C(1000000000)

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
 * Whether the kept memory must be purged. That the group reached its limit is not sufficient,
 * because the page cache of a group that reads files always grows to the limit. The headroom must
 * be small as well.
 */
static bool must_purge(const struct gf_reclaim_reading *now, const struct gf_reclaim_reading *last)
{
    const bool tight = now->headroom.bytes < now->kept;
    const bool exhausted = now->headroom.bytes < gf_max(now->kept / 2, GF_RECLAIM_LITTLE);

    return has_increased(now->pressure.killed, last->pressure.killed) || exhausted ||
           (tight && (has_increased(now->pressure.limited, last->pressure.limited) ||
                      is_stalled(now, last)));
}

bool gf_reclaim_feed(struct gf_reclaim *reclaim, const struct gf_reclaim_reading *now)
{
    const struct gf_reclaim_reading last = reclaim->last.now_ns ? reclaim->last : *now;

    reclaim->last = *now;
    if (now->kept < GF_RECLAIM_LITTLE || !must_purge(now, &last) ||
        (reclaim->purged_ns && now->now_ns - reclaim->purged_ns < SECOND))
        return false;
    reclaim->purged_ns = now->now_ns;
    return true;
}

void gf_reclaim_rest(struct gf_reclaim *reclaim)
{
    reclaim->last = (struct gf_reclaim_reading){0};
}
