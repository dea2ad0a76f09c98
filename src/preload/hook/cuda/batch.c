/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/cuda/batch.h"

#include <stdlib.h>
#include <string.h>

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
