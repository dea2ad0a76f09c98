/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/recall.h"

#define GRANULE_SHIFT 16
#define KIND_BITS 2
#define SLOTS_LOG2 10 /* 16 threads that walk through 64 MiB each, a MiB at a time */
#define ASKED_EACH 16

/* Atomic: a granule's number and its kind, in one word. What falls on the same slot takes it. */
static uint64_t slots[1u << SLOTS_LOG2];

static uint64_t granule_of(CUdeviceptr at)
{
    return at >> GRANULE_SHIFT;
}

static uint64_t *slot_of(uint64_t granule)
{
    return &slots[granule * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SLOTS_LOG2)];
}

enum gf_memory gf_recall(CUdeviceptr at)
{
    static __thread uint8_t turns;
    const uint64_t granule = granule_of(at), word = __atomic_load_n(slot_of(granule), __ATOMIC_RELAXED);

    if (++turns % ASKED_EACH == 0 || word >> KIND_BITS != granule)
        return gf_memory_unknown;
    return (enum gf_memory)(word & ((1u << KIND_BITS) - 1));
}

void gf_recall_keep(CUdeviceptr at, enum gf_memory kind)
{
    const uint64_t granule = granule_of(at);
    __atomic_store_n(slot_of(granule), granule << KIND_BITS | kind, __ATOMIC_RELAXED);
}
