/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/stats/pinned_stats.h"

_Atomic uint64_t gf_pinned_counters[GF_PINNED_COUNTERS];

const char *gf_pinned_reason_name(enum gf_pinned_reason reason)
{
    static const char *const names[GF_PINNED_REASONS] = {
        [gf_pinned_odd] = "size or flags",    [gf_pinned_context] = "context",
        [gf_pinned_memory] = "memory",        [gf_pinned_slow] = "too few threads",
        [gf_pinned_devices] = "several GPUs", [gf_pinned_failed] = "off after a failure",
    };
    return names[reason];
}

void gf_pinned_stats_read(struct gf_pinned_stats *ret)
{
    uint64_t *fields = (uint64_t *)ret;
    for (size_t i = 0; i < GF_PINNED_COUNTERS; i++)
        fields[i] = gf_load_relaxed(&gf_pinned_counters[i]);
}
