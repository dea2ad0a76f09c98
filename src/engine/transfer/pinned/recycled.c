/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pinned/recycled.h"

#include "base/atomic.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/tuning.h"

#define SLOTS 256
#define SIZES (GF_TUNE_PIN_KEPT_MOST / GF_HUGE_PAGE)

/*
 * A direct-mapped table of the driver's blocks; a collision overwrites. If threads use a slot at the
 * same time, at worst another size counts as freed.
 */
static struct {
    _Atomic uintptr_t at;
    _Atomic unsigned size;
} blocks[SLOTS];
static _Atomic uint32_t freed; /* a bit for each size */

_Static_assert(SIZES <= 32, "a bit for each size");

/* The number of huge pages minus 1. */
static unsigned size_of(size_t bytes)
{
    return (unsigned)((bytes - 1) / GF_HUGE_PAGE);
}

bool gf_recycled_covers(size_t bytes)
{
    return bytes > GF_TUNE_PIN_KEPT_ABOVE && bytes <= GF_TUNE_PIN_KEPT_MOST;
}

static size_t slot_of(const void *at)
{
    return (size_t)((uintptr_t)at * UINT64_C(0x9e3779b97f4a7c15) >> 56);
}

void gf_recycled_allocated(const void *at, size_t bytes)
{
    const size_t slot = slot_of(at);
    if (!gf_recycled_covers(bytes))
        return;
    gf_store_relaxed(&blocks[slot].size, size_of(bytes));
    gf_store_relaxed(&blocks[slot].at, (uintptr_t)at);
}

void gf_recycled_freed(const void *at)
{
    const size_t slot = slot_of(at);
    uintptr_t wanted = (uintptr_t)at;
    const unsigned size = gf_load_relaxed(&blocks[slot].size);
    if (at && gf_cas_relaxed(&blocks[slot].at, &wanted, 0))
        atomic_fetch_or_explicit(&freed, UINT32_C(1) << size, memory_order_relaxed);
}

void gf_recycled_note(size_t bytes)
{
    if (gf_recycled_covers(bytes))
        atomic_fetch_or_explicit(&freed, UINT32_C(1) << size_of(bytes), memory_order_relaxed);
}

bool gf_recycled(size_t bytes)
{
    return gf_recycled_covers(bytes) && (gf_load_relaxed(&freed) >> size_of(bytes) & 1);
}
