/* SPDX-License-Identifier: Apache-2.0 */
#include "place/squeeze.h"

#define MIB (UINT64_C(1) << 20)
#define SECOND UINT64_C(1000000000)

#define LITTLE GF_SQUEEZE_LITTLE

static bool grown(uint64_t now, uint64_t before)
{
    return now != GF_PRESSURE_UNKNOWN && before != GF_PRESSURE_UNKNOWN && now > before;
}

/* At least a tenth of the time since the last reading. */
static bool stalled(const struct gf_squeeze_reading *now, const struct gf_squeeze_reading *last)
{
    const uint64_t interval_us = (now->now_ns - last->now_ns) / 1000;
    return grown(now->pressure.stalled_us, last->pressure.stalled_us) && interval_us > 0 &&
           (now->pressure.stalled_us - last->pressure.stalled_us) * 10 >= interval_us;
}

/*
 * Running into the limit alone says little: in a group that reads files the page cache does that
 * all day long. It counts where room is short too.
 */
static bool must_give_back(const struct gf_squeeze_reading *now,
                           const struct gf_squeeze_reading *last)
{
    const bool tight = now->room.bytes < now->kept;
    const bool short_of = now->room.bytes < gf_max(now->kept / 8, LITTLE);

    return grown(now->pressure.killed, last->pressure.killed) || short_of ||
           (tight && (grown(now->pressure.limited, last->pressure.limited) || stalled(now, last)));
}

static bool may_lend(const struct gf_squeeze *squeeze, const struct gf_squeeze_reading *now,
                     const struct gf_squeeze_reading *last)
{
    return now->room.bytes / 2 < now->dirty || stalled(now, last) ||
           grown(now->pressure.limited, last->pressure.limited) ||
           (squeeze->idle_since_ns && now->now_ns - squeeze->idle_since_ns >= SECOND);
}

static void note_idle(struct gf_squeeze *squeeze, const struct gf_squeeze_reading *now)
{
    if (!now->idle)
        squeeze->idle_since_ns = 0;
    else if (!squeeze->idle_since_ns)
        squeeze->idle_since_ns = squeeze->last.now_ns ? squeeze->last.now_ns : now->now_ns;
}

enum gf_squeeze_step gf_squeeze_feed(struct gf_squeeze *squeeze,
                                     const struct gf_squeeze_reading *now)
{
    const struct gf_squeeze_reading last = squeeze->last.now_ns ? squeeze->last : *now;
    enum gf_squeeze_step step = gf_squeeze_nothing;

    note_idle(squeeze, now);
    squeeze->last = *now;
    if (now->kept >= LITTLE && must_give_back(now, &last) &&
        (!squeeze->gave_back_ns || now->now_ns - squeeze->gave_back_ns >= SECOND)) {
        squeeze->gave_back_ns = now->now_ns;
        step = gf_squeeze_give_back;
    } else if (now->dirty >= MIB && may_lend(squeeze, now, &last)) {
        step = gf_squeeze_lend;
    }
    if (step != gf_squeeze_nothing)
        squeeze->last.dirty = 0;
    return step;
}

void gf_squeeze_rest(struct gf_squeeze *squeeze)
{
    squeeze->last = (struct gf_squeeze_reading){0};
    squeeze->idle_since_ns = 0;
}

uint64_t gf_squeeze_wait(const struct gf_squeeze *squeeze)
{
    if (squeeze->last.dirty >= LITTLE)
        return SECOND / 10;
    return squeeze->last.kept >= LITTLE ? SECOND / 2 : UINT64_MAX;
}
