/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/staging/ring_due.h"

#include "base/atomic.h"
#include "base/base.h"
#include "base/clock.h"

/* when to search for unused segments next; 0 before the first segment */
static _Atomic uint64_t look_ns;
static _Atomic uint64_t short_ns;

bool gf_ring_trim_is_due(void)
{
    const uint64_t due = gf_load_relaxed(&look_ns);
    return gf_unlikely(due) && gf_now_ns() > due;
}

void gf_ring_look_next(uint64_t ns)
{
    gf_store_relaxed(&look_ns, ns);
}

void gf_ring_look_at(uint64_t ns)
{
    uint64_t due = gf_load_relaxed(&look_ns);
    while ((!due || due > ns) && !gf_cas_weak_relaxed(&look_ns, &due, ns))
        continue;
}

void gf_ring_trim_soon(void)
{
    const uint64_t now = gf_now_ns();
    gf_store_relaxed(&short_ns, now);
    if (gf_load_relaxed(&look_ns))
        gf_ring_look_at(now);
}

uint64_t gf_ring_memory_was_short_ns(void)
{
    return gf_load_relaxed(&short_ns);
}
