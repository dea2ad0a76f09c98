/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/copy/pointer_cache.h"

#include "base/atomic.h"

#define GRANULE_SHIFT 16
#define KIND_BITS 2
#define SLOTS_LOG2 10 /* enough for 16 threads that each copy 64 MiB, 1 MiB at a time */
#define REFRESH_EACH 16

/*
 * Each word holds the number of a granule, which is 64 KiB of memory, and the kind of that memory.
 */
static _Atomic uint64_t slots[1u << SLOTS_LOG2];

static uint64_t granule_of(CUdeviceptr at)
{
    return at >> GRANULE_SHIFT;
}

static _Atomic uint64_t *slot_of(uint64_t granule)
{
    return &slots[granule * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SLOTS_LOG2)];
}

enum gf_memory gf_pointer_cache_get(CUdeviceptr at)
{
    static __thread uint8_t lookups;
    const uint64_t granule = granule_of(at), word = gf_load_relaxed(slot_of(granule));

    if (++lookups % REFRESH_EACH == 0 || word >> KIND_BITS != granule)
        return gf_memory_unknown;
    return (enum gf_memory)(word & ((1u << KIND_BITS) - 1));
}

void gf_pointer_cache_put(CUdeviceptr at, enum gf_memory kind)
{
    const uint64_t granule = granule_of(at);
    gf_store_relaxed(slot_of(granule), granule << KIND_BITS | kind);
}
