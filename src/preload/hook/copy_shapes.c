/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/copy_shapes.h"

#include <stdlib.h>

bool gf_batch_is_sound(const struct gf_batch *batch)
{
    if (!batch->dsts || !batch->srcs || !batch->sizes || !batch->count || !batch->attrs ||
        !batch->attrs_idxs || !batch->attr_count || batch->attr_count > batch->count ||
        batch->attrs_idxs[0] != 0)
        return false;
    for (size_t i = 1; i < batch->attr_count; i++)
        if (batch->attrs_idxs[i] <= batch->attrs_idxs[i - 1] ||
            batch->attrs_idxs[i] >= batch->count)
            return false;
    for (size_t i = 0; i < batch->attr_count; i++)
        if (batch->attrs[i].srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
            batch->attrs[i].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
            return false;
    return true;
}

/*
 * Whether these attributes allow staging. The hint to overlap a copy with computation does not
 * prevent staging, because a staged copy is also made by DMA.
 */
static bool attrs_are_plain(const CUmemcpyAttributes *attrs)
{
    return (attrs->srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
            attrs->srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_ANY) &&
           !attrs->srcLocHint.type && !attrs->dstLocHint.type &&
           !(attrs->flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
}

void gf_batch_each(const struct gf_batch *batch,
                   void (*see)(void *closure, size_t member, bool plain), void *closure)
{
    for (size_t kind = 0; kind < batch->attr_count; kind++) {
        const size_t end =
            kind + 1 < batch->attr_count ? batch->attrs_idxs[kind + 1] : batch->count;
        const bool plain = attrs_are_plain(&batch->attrs[kind]);
        for (size_t member = batch->attrs_idxs[kind]; member < end; member++)
            see(closure, member, plain);
    }
}

bool gf_split_begin(const struct gf_batch *batch, struct gf_split *ret)
{
    const size_t each = sizeof(*ret->rest.dsts) + sizeof(*ret->rest.srcs) + sizeof(size_t) * 2 +
                        sizeof(*ret->rest.attrs) + sizeof(size_t) + sizeof(bool);
    CUmemcpyAttributes *memory = calloc(batch->count, each);

    if (!memory)
        return false;
    ret->rest.attrs = memory;
    ret->rest.dsts = (CUdeviceptr *)(memory + batch->count);
    ret->rest.srcs = ret->rest.dsts + batch->count;
    ret->rest.sizes = (size_t *)(ret->rest.srcs + batch->count);
    ret->rest.attrs_idxs = ret->rest.sizes + batch->count;
    ret->rest_members = ret->rest.attrs_idxs + batch->count;
    ret->staged = (bool *)(ret->rest_members + batch->count);
    ret->rest.count = ret->rest.attr_count = 0;
    return true;
}

void gf_split_rest(const struct gf_batch *batch, struct gf_split *split)
{
    struct gf_batch *rest = &split->rest;
    size_t kind = 0, kept = SIZE_MAX; /* `kept`: index of the attributes copied last */

    for (size_t member = 0; member < batch->count; member++) {
        if (kind + 1 < batch->attr_count && batch->attrs_idxs[kind + 1] == member)
            kind++;
        if (split->staged[member])
            continue;
        if (kept != kind) {
            rest->attrs[rest->attr_count] = batch->attrs[kind];
            rest->attrs_idxs[rest->attr_count++] = rest->count;
            kept = kind;
        }
        rest->dsts[rest->count] = batch->dsts[member];
        rest->srcs[rest->count] = batch->srcs[member];
        rest->sizes[rest->count] = batch->sizes[member];
        split->rest_members[rest->count++] = member;
    }
}

void gf_split_end(struct gf_split *split)
{
    free(split->rest.attrs);
}

void gf_batch_single(const struct gf_batch *batch, size_t member, struct gf_single *ret)
{
    size_t kind = 0;

    while (kind + 1 < batch->attr_count && batch->attrs_idxs[kind + 1] <= member)
        kind++;
    ret->first = 0;
    ret->batch = (struct gf_batch){
        .dsts = batch->dsts + member,
        .srcs = batch->srcs + member,
        .sizes = batch->sizes + member,
        .count = 1,
        .attrs = batch->attrs + kind,
        .attrs_idxs = &ret->first,
        .attr_count = 1,
    };
}

/*
 * CU_DEVICE_ATTRIBUTE_MAX_PITCH, which is the same on all known devices. The driver refuses a
 * larger pitch.
 */
#define MAX_PITCH ((size_t)INT32_MAX)

struct extent {
    size_t width, height, depth;
};

/* The parameters of one side of a copy. */
struct end {
    CUmemorytype type;
    uintptr_t host;
    CUdeviceptr device;
    size_t x, y, z, pitch, height;
};

static size_t multiply_saturated(size_t a, size_t b)
{
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

/* Within these limits, no sum of two of these values overflows. */
static bool is_sane(const struct extent *extent, const struct end *end)
{
    const size_t limit = (size_t)1 << 31;
    return extent->width < limit && extent->height < limit && extent->depth < limit &&
           end->x < limit && end->y < limit && end->z < limit && end->height < limit &&
           end->pitch <= MAX_PITCH;
}

/*
 * Finds the address of the first byte of one side. Returns false if the bytes of that side are not
 * contiguous. Also returns false if the pitch or the height is 0, and the address of a byte depends
 * on it.
 */
static bool end_is_contiguous(const struct extent *extent, const struct end *end, CUdeviceptr *ret)
{
    const bool rows = extent->height > 1 || extent->depth > 1;
    const size_t base = end->type == CU_MEMORYTYPE_HOST ? end->host : end->device;
    size_t lines, offset;

    if (!is_sane(extent, end))
        return false;
    if (end->pitch ? end->pitch < extent->width + end->x : end->x || end->y || end->z || rows)
        return false;
    if (end->height ? end->height < extent->height + end->y : end->z || extent->depth > 1)
        return false;
    if (rows && end->pitch != extent->width)
        return false;
    if (extent->depth > 1 && end->height != extent->height)
        return false;
    if (__builtin_mul_overflow(end->z, end->height, &lines) ||
        __builtin_add_overflow(lines, end->y, &lines) ||
        __builtin_mul_overflow(lines, end->pitch, &offset) ||
        __builtin_add_overflow(offset, end->x, &offset) ||
        __builtin_add_overflow(base, offset, &offset))
        return false;
    *ret = offset;
    return true;
}

static bool may_be(CUmemorytype type, CUmemorytype wanted)
{
    return type == wanted || type == CU_MEMORYTYPE_UNIFIED;
}

/*
 * Finds the direction of a copy. A unified address may be host or device memory. If only one side
 * has such an address, the type of the other side determines the direction.
 */
static bool find_way(CUmemorytype dst, CUmemorytype src, enum gf_copy_way *ret)
{
    const bool h2d = may_be(src, CU_MEMORYTYPE_HOST) && may_be(dst, CU_MEMORYTYPE_DEVICE),
               d2h = may_be(src, CU_MEMORYTYPE_DEVICE) && may_be(dst, CU_MEMORYTYPE_HOST);

    if (h2d || d2h)
        *ret = h2d && d2h ? gf_copy_any : h2d ? gf_copy_h2d : gf_copy_d2h;
    return h2d || d2h;
}

static bool is_contiguous(const struct extent *extent, const struct end *dst, const struct end *src,
                          struct gf_copy_call *ret)
{
    ret->bytes =
        multiply_saturated(multiply_saturated(extent->width, extent->height), extent->depth);
    return ret->bytes && ret->bytes != SIZE_MAX && find_way(dst->type, src->type, &ret->way) &&
           end_is_contiguous(extent, dst, &ret->dst) && end_is_contiguous(extent, src, &ret->src);
}

/*
 * Initialises a struct end from one side of a 2D or 3D copy. CUDA_MEMCPY2D and CUDA_MEMCPY3D use
 * the same names for these members.
 */
#define END(block, side)                                                                           \
    {                                                                                              \
        .type = (block)->side##MemoryType, .host = (uintptr_t)(block)->side##Host,                 \
        .device = (block)->side##Device, .x = (block)->side##XInBytes, .y = (block)->side##Y,      \
        .pitch = (block)->side##Pitch                                                              \
    }

bool gf_linear_copy_2d(const CUDA_MEMCPY2D *block, struct gf_copy_call *ret)
{
    ret->bytes = 0;
    if (!block)
        return false;
    const struct extent extent = {block->WidthInBytes, block->Height, 1};
    const struct end dst = END(block, dst), src = END(block, src);
    return is_contiguous(&extent, &dst, &src, ret);
}

bool gf_linear_copy_3d(const CUDA_MEMCPY3D *block, struct gf_copy_call *ret)
{
    ret->bytes = 0;
    if (!block)
        return false;
    const struct extent extent = {block->WidthInBytes, block->Height, block->Depth};
    struct end dst = END(block, dst), src = END(block, src);
    dst.z = block->dstZ;
    dst.height = block->dstHeight;
    src.z = block->srcZ;
    src.height = block->srcHeight;
    return is_contiguous(&extent, &dst, &src, ret) && !block->srcLOD && !block->dstLOD &&
           !block->reserved0 && !block->reserved1;
}
