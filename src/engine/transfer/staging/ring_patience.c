/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/staging/ring_patience.h"

#include "base/clock.h"
#include "engine/transfer/tuning.h"

bool gf_ring_is_patient(struct gf_ring *ring, size_t bytes)
{
    unsigned left = gf_load_relaxed(&ring->impatient);

    if (bytes <= GF_TUNE_ASYNC_NOWAIT)
        return false;
    while (left && !gf_cas_weak_relaxed(&ring->impatient, &left, left - 1))
        continue;
    return !left;
}

static bool sleep_until(uint64_t end_ns)
{
    static const struct timespec moment = {.tv_nsec = GF_TUNE_RING_MOMENT_NS};

    if (gf_now_ns() >= end_ns)
        return false;
    clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    return true;
}

bool gf_ring_await_others(size_t bytes, uint64_t since_ns)
{
    return sleep_until(since_ns + bytes / GF_MIB(1) * GF_TUNE_RING_PATIENCE_NS);
}

bool gf_ring_await_first(size_t bytes, uint64_t since_ns, bool has_begun)
{
    const uint64_t patience =
        gf_min(bytes / GF_MIB(1) * GF_TUNE_RING_FIRST_PATIENCE_NS, GF_TUNE_RING_FIRST_MOST_NS);
    return sleep_until(since_ns + (has_begun ? patience : patience / 4));
}

void gf_ring_waited(struct gf_ring *ring, bool found)
{
    if (!found)
        gf_store_relaxed(&ring->impatient, GF_TUNE_RING_IMPATIENT);
}
