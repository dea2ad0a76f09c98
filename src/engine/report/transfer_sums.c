/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/transfer_sums.h"

static void add_counts(struct gf_copy_counts *sum, const struct gf_copy_counts *counts)
{
    sum->calls += counts->calls;
    sum->bytes += counts->bytes;
    sum->timed_bytes += counts->timed_bytes;
    sum->timed_ns += counts->timed_ns;
}

static void add_group(struct gf_copy_counts *sum, const struct gf_copy_stats *copies,
                      enum gf_direction direction, bool async, enum gf_copy_group group)
{
    if (group == gf_copy_group_staged)
        add_counts(sum, &copies->staged[direction][async]);
    for (unsigned why = 0; why < gf_bypass_count; why++)
        if (gf_copy_group(why) == group)
            add_counts(sum, &copies->bypassed[direction][async][why]);
}

struct gf_copy_counts gf_transfer_sums_group(const struct gf_copy_stats *copies,
                                             enum gf_direction direction, enum gf_copy_group group)
{
    struct gf_copy_counts ret = {0};

    add_group(&ret, copies, direction, false, group);
    add_group(&ret, copies, direction, true, group);
    return ret;
}

struct gf_copy_counts gf_transfer_sums_bypassed(const struct gf_copy_stats *copies,
                                                enum gf_direction direction, enum gf_bypass why)
{
    struct gf_copy_counts ret = copies->bypassed[direction][0][why];

    add_counts(&ret, &copies->bypassed[direction][1][why]);
    return ret;
}

/* Returns bytes * unit / ns; UINT64_MAX on overflow. */
static uint64_t rate_in(uint64_t unit, uint64_t bytes, uint64_t ns)
{
    const unsigned __int128 rate = (unsigned __int128)bytes * unit / ns;
    return rate > UINT64_MAX ? UINT64_MAX : (uint64_t)rate;
}

uint64_t gf_transfer_sums_rate(const struct gf_copy_counts *counts)
{
    return rate_in(1000, counts->timed_bytes, counts->timed_ns);
}

uint64_t gf_transfer_sums_saving_ns(const struct gf_copy_stats *copies, uint64_t *ret_rate)
{
    const struct gf_copy_counts pinned = copies->bypassed[gf_direction_h2d][0][gf_bypass_pinned];
    struct gf_copy_counts pageable[2] = {0}; /* of synchronous and asynchronous calls */

    for (unsigned async = 0; async < 2; async++) {
        add_group(&pageable[async], copies, gf_direction_h2d, async, gf_copy_group_staged);
        add_group(&pageable[async], copies, gf_direction_h2d, async, gf_copy_group_driver);
    }
    const struct gf_copy_counts sync = pageable[0], async = pageable[1];
    *ret_rate = pinned.timed_ns ? rate_in(1000000000, pinned.timed_bytes, pinned.timed_ns) : 0;
    if (!*ret_rate)
        return async.timed_ns;
    const uint64_t pinned_ns = rate_in(1000000000, sync.timed_bytes, *ret_rate);
    return async.timed_ns + (sync.timed_ns > pinned_ns ? sync.timed_ns - pinned_ns : 0);
}

bool gf_transfer_sums_add_hook(struct gf_small_copies *sums, const struct gf_hook_counts *counts)
{
    if (!counts->bytes)
        return false;
    /*
     * The counters increase while they are read. So `offered` may contain a copy that `copies` does
     * not contain yet, and the difference may be negative.
     */
    const uint64_t offered_bytes = counts->offered_bytes + counts->unfit_bytes;
    sums->small += counts->copies - gf_min(counts->copies, counts->offered + counts->unfit);
    sums->small_bytes += counts->bytes - gf_min(counts->bytes, offered_bytes);
    sums->unsupported += counts->unfit;
    sums->unsupported_bytes += counts->unfit_bytes;
    return true;
}

uint64_t gf_transfer_sums_whole_ns(const struct gf_preload *preload, uint64_t ran_ms)
{
    struct gf_step_times times;

    preload->step_times(&times);
    return times.source == gf_step_none ? ran_ms * 1000000 : times.total_ns;
}

uint64_t gf_transfer_sums_share(uint64_t ns, uint64_t whole_ns, unsigned parts)
{
    return whole_ns ? (uint64_t)((double)gf_min(ns, whole_ns) * parts / (double)whole_ns) : 0;
}
