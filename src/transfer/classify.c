/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/classify.h"

#include "transfer/plant.h"
#include "transfer/recall.h"
#include "transfer/setup.h"

#define MAPPINGS 65536 /* more than that in one copy: 2 MiB each would be 128 GiB */

/*
 * The question in the plural is answered for memory that the driver does not know, too, with 0; in the
 * singular that is an error, which tools that watch for errors would show as the program's.
 */
static enum gf_memory kind_of(CUdeviceptr at)
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

static enum gf_memory recalled_kind_of(CUdeviceptr at)
{
    enum gf_memory kind = gf_recall(at);
    if (kind == gf_memory_unknown)
        gf_recall_keep(at, kind = kind_of(at));
    return kind;
}

/* Why memory of a kind is the driver's, the way being clear. */
static enum gf_forward why_of(enum gf_memory kind)
{
    return kind == gf_memory_unknown ? gf_forward_failed : gf_forward_pinned;
}

/* Managed memory says that it is a device's: the other end decides about it later. */
static bool classify_any(const struct gf_copy_call *call, enum gf_direction *ret_direction,
                         enum gf_forward *ret_why)
{
    const enum gf_memory src = kind_of(call->src);

    *ret_direction = src == gf_memory_device ? gf_direction_d2h : gf_direction_h2d;
    *ret_why = why_of(src);
    if (src == gf_memory_other || src == gf_memory_unknown)
        return false;
    const enum gf_memory dst = kind_of(call->dst);
    *ret_why = why_of(dst);
    if (dst == gf_memory_unknown || (src == gf_memory_device && dst == gf_memory_other))
        return false;
    *ret_why = gf_forward_ends;
    if (dst != (src == gf_memory_device ? gf_memory_pageable : gf_memory_device))
        return false;
    *ret_why = gf_forward_batch;
    return call->way == gf_copy_any || src == gf_memory_pageable;
}

bool gf_classify_host(const struct gf_copy_call *call, bool counts, enum gf_direction *ret_direction,
                      enum gf_forward *ret_why)
{
    if (call->dst + call->bytes < call->dst || call->src + call->bytes < call->src) {
        *ret_direction = call->way == gf_copy_d2h ? gf_direction_d2h : gf_direction_h2d;
        *ret_why = gf_forward_ends;
        return false;
    }
    if (call->way == gf_copy_any || call->way == gf_copy_batched)
        return classify_any(call, ret_direction, ret_why);
    *ret_direction = call->way == gf_copy_h2d ? gf_direction_h2d : gf_direction_d2h;
    const CUdeviceptr host = call->way == gf_copy_h2d ? call->src : call->dst;
    const enum gf_memory kind = counts ? recalled_kind_of(host) : kind_of(host);
    *ret_why = why_of(kind);
    return kind == gf_memory_pageable;
}

struct mapping {
    CUmemorytype type;
    unsigned managed, synchronous;
    unsigned ipc; /* by cuMemAlloc */
    CUmemoryPool pool;
    int device;
    int access;
    CUdeviceptr start;
    size_t size;
};

static bool ask(CUdeviceptr at, struct mapping *ret)
{
    CUpointer_attribute what[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,      CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
    };
    void *into[] = {&ret->type,  &ret->managed, &ret->synchronous, &ret->device, &ret->access,
                    &ret->start, &ret->size,    &ret->pool,        &ret->ipc};
    *ret = (struct mapping){0};
    return gf_setup.cuda->cuPointerGetAttributes(GF_ARRAY_LEN(what), what, into, at) ==
           CUDA_SUCCESS;
}

static bool is_plain(const struct mapping *m, CUdevice device)
{
    return !m->managed && !m->synchronous && m->device == device &&
           m->access == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
}

/* Only what the program itself has mapped side by side is one range to the driver. */
static bool may_be_left(const struct mapping *m)
{
    return (!m->ipc && !m->pool) || GF_PLANTED(crosses_allocations);
}

/* From mapping to mapping until the end is reached. */
static bool classify_device(CUdeviceptr at, size_t bytes, CUdevice device, enum gf_forward *ret_why)
{
    const CUdeviceptr end = at + bytes;
    struct mapping m;

    for (unsigned i = 0; at < end; i++) {
        *ret_why = gf_forward_range;
        if (i == MAPPINGS || !ask(at, &m) || m.type != CU_MEMORYTYPE_DEVICE || at < m.start ||
            at - m.start >= m.size || ((i || end - m.start > m.size) && !may_be_left(&m)))
            return false;
        *ret_why = gf_forward_device_memory;
        if (!is_plain(&m, device))
            return false;
        at = m.start + m.size;
    }
    return true;
}

bool gf_classify_ends(const struct gf_copy_call *call, enum gf_direction direction,
                      CUdevice device, enum gf_forward *ret_why)
{
    const bool h2d = direction == gf_direction_h2d;
    const enum gf_memory last = kind_of((h2d ? call->src : call->dst) + call->bytes - 1);
    *ret_why = why_of(last);
    return last == gf_memory_pageable &&
           classify_device(h2d ? call->dst : call->src, call->bytes, device, ret_why);
}
