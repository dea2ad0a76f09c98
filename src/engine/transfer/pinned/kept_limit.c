/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pinned/kept_limit.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "engine/transfer/pinned/kept_mapping.h"
#include "engine/transfer/pinned/pinned_cache.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/tuning.h"
#include "engine/transfer/stats.h"
#include "os/headroom.h"

static _Atomic uint64_t kept_until; /* time at which the headroom is to be read again */
/* Number of mappings that may be kept, by the last reading of the headroom. */
static _Atomic unsigned kept_most;

static void count_trims(unsigned gone)
{
    if (gone)
        gf_pinned_stats_add(trims, gone);
}

uint64_t gf_kept_limit_room(void)
{
    const uint64_t all = (uint64_t)gf_load_relaxed(&kept_most) * GF_PINNED_CHUNK_SIZE;
    return all ? all - gf_min(all, gf_pinned_cache_kept()) : 0;
}

void gf_kept_limit_apply(void)
{
    if (gf_kept_mapping_bytes())
        count_trims(gf_kept_mapping_trim_to(gf_kept_limit_room()));
}

void gf_kept_limit_trim(void)
{
    count_trims(gf_kept_mapping_trim(UINT64_MAX));
}

static uint64_t most_bytes(const struct gf_headroom *headroom)
{
    if (headroom->bytes < GF_TUNE_PIN_RESERVE)
        return 0;
    return gf_setup.options->pin_cache == GF_SIZE_AUTO
               ? gf_min(GF_TUNE_PIN_CACHE, headroom->bytes / 32)
               : gf_setup.options->pin_cache;
}

unsigned gf_kept_limit_read(int node)
{
    const uint64_t now = gf_now_ns();
    struct gf_headroom headroom;

    if (now < gf_load_relaxed(&kept_until))
        return gf_load_relaxed(&kept_most);
    gf_headroom_read("", node, &headroom);
    const unsigned found = (unsigned)(most_bytes(&headroom) / GF_PINNED_CHUNK_SIZE);
    gf_store_relaxed(&kept_most, found);
    gf_store_relaxed(&kept_until, now + GF_TUNE_PIN_READ_NS);
    count_trims(gf_kept_mapping_trim(now - gf_min(now, GF_TUNE_PIN_KEPT_NS)));
    gf_kept_limit_apply();
    return found;
}

void gf_kept_limit_short(void)
{
    gf_store_relaxed(&kept_most, 0);
    gf_store_relaxed(&kept_until, gf_now_ns() + GF_TUNE_PIN_READ_NS);
    gf_kept_limit_trim();
}

bool gf_kept_limit_is_short(void)
{
    return gf_load_relaxed(&kept_most) == 0 && gf_now_ns() < gf_load_relaxed(&kept_until);
}
