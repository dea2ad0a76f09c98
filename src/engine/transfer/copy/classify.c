/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/copy/classify.h"

#include "base/atomic.h"
#include "engine/transfer/setup.h"

/*
 * A direct-mapped cache of the driver's answers about memory; in a collision, the new answer
 * overwrites the old one. It is used for copies that are only counted, not staged. On few CPUs many
 * callers contend for the driver's lock, so each query would delay the driver's copies.
 *
 * An answer of the cache may be stale. If memory is freed and allocated in another way, the cache
 * keeps the old kind until the driver is queried again, which each thread does at every 16th
 * lookup. So only counts may depend on the cache. The functions may be called on any thread.
 */

enum gf_memory {
    gf_memory_pageable,
    gf_memory_device, /* includes managed memory */
    gf_memory_other,  /* page-locked: allocated by the driver, or registered */
    gf_memory_unknown,
};

#define GRANULE_SHIFT 16
#define KIND_BITS 2
#define SLOTS_LOG2 10 /* enough for 16 threads that each copy 64 MiB, 1 MiB at a time */
#define REFRESH_EACH 16

/*
 * Each word holds the number of a granule, which is 64 KiB of memory, and the kind of that memory.
 */
static _Atomic uint64_t slots[1u << SLOTS_LOG2];

/*
 * The most mappings that one copy may span: 128 GiB if each mapping has the smallest size, 2 MiB.
 */
#define MAPPINGS_MOST 65536

/*
 * For memory that the driver does not know, cuPointerGetAttributes succeeds with type 0.
 * cuPointerGetAttribute would fail, and tools would report that error as the program's.
 */
static enum gf_memory memory_at(CUdeviceptr at)
{
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    CUmemorytype type = 0;
    void *into[] = {&type};
    if (gf_setup.cuda->cuPointerGetAttributes(1, what, into, at) != CUDA_SUCCESS)
        return gf_memory_unknown;
    return type == 0                      ? gf_memory_pageable
           : type == CU_MEMORYTYPE_DEVICE ? gf_memory_device
                                          : gf_memory_other;
}

static enum gf_memory cached_memory_at(CUdeviceptr at)
{
    static __thread uint8_t lookups;
    const uint64_t granule = at >> GRANULE_SHIFT;
    _Atomic uint64_t *const slot =
        &slots[granule * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SLOTS_LOG2)];
    const uint64_t word = gf_load_relaxed(slot);
    enum gf_memory kind = (enum gf_memory)(word & ((1u << KIND_BITS) - 1));

    if (++lookups % REFRESH_EACH == 0 || word >> KIND_BITS != granule ||
        kind == gf_memory_unknown) {
        kind = memory_at(at);
        gf_store_relaxed(slot, granule << KIND_BITS | kind);
    }
    return kind;
}

static enum gf_bypass check_pageable(enum gf_memory host)
{
    return host == gf_memory_pageable  ? gf_bypass_none
           : host == gf_memory_unknown ? gf_bypass_failed
                                       : gf_bypass_pinned;
}

/*
 * For functions that do not define the direction, such as cuMemcpy: the addresses determine it.
 * Managed memory counts as device memory here, and gf_classify_ends refuses it later.
 */
static enum gf_bypass classify_undirected(const struct gf_copy_call *call,
                                          enum gf_direction *ret_direction)
{
    const enum gf_memory src = memory_at(call->src);
    const bool from_device = src == gf_memory_device;

    *ret_direction = from_device ? gf_direction_d2h : gf_direction_h2d;
    if (src == gf_memory_other || src == gf_memory_unknown)
        return check_pageable(src);
    const enum gf_memory dst = memory_at(call->dst);
    if (dst == gf_memory_unknown || (from_device && dst == gf_memory_other))
        return check_pageable(dst);
    if (dst != (from_device ? gf_memory_pageable : gf_memory_device))
        return gf_bypass_ends;
    return call->way == gf_copy_batched && from_device ? gf_bypass_batch : gf_bypass_none;
}

enum gf_bypass gf_classify_host(const struct gf_copy_call *call, bool cached,
                                enum gf_direction *ret_direction)
{
    const CUdeviceptr host = call->way == gf_copy_h2d ? call->src : call->dst;

    *ret_direction = call->way == gf_copy_d2h ? gf_direction_d2h : gf_direction_h2d;
    if (call->dst + call->bytes < call->dst || call->src + call->bytes < call->src)
        return gf_bypass_ends;
    if (call->way == gf_copy_any || call->way == gf_copy_batched)
        return classify_undirected(call, ret_direction);
    return check_pageable(cached ? cached_memory_at(host) : memory_at(host));
}

struct mapping {
    CUmemorytype type;
    unsigned managed, synchronous;
    unsigned ipc; /* nonzero: allocated by cuMemAlloc */
    CUmemoryPool pool;
    int device;
    int access;
    CUdeviceptr start;
    size_t size;
};

static bool read_mapping(CUdeviceptr at, struct mapping *ret)
{
    CUpointer_attribute what[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
    };
    void *into[] = {&ret->type,  &ret->managed, &ret->synchronous, &ret->device, &ret->access,
                    &ret->start, &ret->size,    &ret->pool,        &ret->ipc};
    *ret = (struct mapping){0};
    return gf_setup.cuda->cuPointerGetAttributes(GF_ARRAY_LEN(what), what, into, at) ==
           CUDA_SUCCESS;
}

static bool is_plain_mapping(const struct mapping *m, CUdevice device)
{
    return !m->managed && !m->synchronous && m->device == device &&
           m->access == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
}

/*
 * Whether a copy may continue from this mapping into an adjacent one. The driver allows this only
 * for mappings that the program created itself (cuMemMap).
 */
static bool may_be_crossed(const struct mapping *m)
{
    return !m->ipc && !m->pool;
}

static enum gf_bypass classify_device(CUdeviceptr at, size_t bytes, CUdevice device)
{
    const CUdeviceptr end = at + bytes;
    struct mapping m;

    for (unsigned i = 0; at < end; i++) {
        if (i == MAPPINGS_MOST || !read_mapping(at, &m) || m.type != CU_MEMORYTYPE_DEVICE ||
            at < m.start || at - m.start >= m.size ||
            ((i || end - m.start > m.size) && !may_be_crossed(&m)))
            return gf_bypass_range;
        if (!is_plain_mapping(&m, device))
            return gf_bypass_device_memory;
        at = m.start + m.size;
    }
    return gf_bypass_none;
}

enum gf_bypass gf_classify_ends(const struct gf_copy_call *call, enum gf_direction direction,
                                CUdevice device)
{
    const bool h2d = direction == gf_direction_h2d;
    const CUdeviceptr host = h2d ? call->src : call->dst, other = h2d ? call->dst : call->src;
    const enum gf_bypass reason = check_pageable(memory_at(host + call->bytes - 1));

    return reason != gf_bypass_none ? reason : classify_device(other, call->bytes, device);
}
