/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of copies. Members that staging can do go to the engine one by one; the others go to the
 * driver as one batch, before them, so that a batch which the driver refuses is refused with its
 * result and index and nothing of ours was done. Where no member qualifies, and in any doubt, the
 * driver gets the whole batch as it came.
 */
#include "hook/batch.h"
#include "hook/offer.h"

/* One of both versions of the driver's function, and the caller's stream. */
struct entry {
    __typeof__(cuMemcpyBatchAsync) *v1;
    __typeof__(cuMemcpyBatchAsync_v2) *v2;
    CUstream stream;
};

struct plan {
    enum gf_hook hook;
    const struct gf_batch *batch;
    CUstream stream; /* what the caller's means */
    size_t least;
    size_t candidates;
    struct gf_split *split;
    const struct gf_transfer_ops *transfer;
    size_t apart;
};

static CUresult submit(const struct entry *entry, const struct gf_batch *b, size_t *fail_idx)
{
    if (entry->v1)
        return entry->v1(b->dsts, b->srcs, b->sizes, b->count, b->attrs, b->attrs_idxs,
                         b->attr_count, fail_idx, entry->stream);
    return entry->v2(b->dsts, b->srcs, b->sizes, b->count, b->attrs, b->attrs_idxs, b->attr_count,
                     entry->stream);
}

/* A copy from the device stays in its batch: what an order of reading means for one is not known. */
static struct gf_copy_call call_of(const struct plan *plan, size_t member)
{
    return (struct gf_copy_call){.way = gf_copy_batched,
                                 .async = true,
                                 .dst = plan->batch->dsts[member],
                                 .src = plan->batch->srcs[member],
                                 .bytes = plan->batch->sizes[member],
                                 .stream = plan->stream};
}

static void count_member(void *closure, size_t member, bool plain)
{
    struct plan *plan = closure;
    const size_t bytes = plan->batch->sizes[member];

    gf_count_bytes(plan->hook, bytes);
    if (bytes < plan->least)
        return;
    gf_count_large(plan->hook, bytes, plain);
    plan->candidates += plain;
}

static void try_member(void *closure, size_t member, bool plain)
{
    struct plan *plan = closure;
    const struct gf_copy_call call = call_of(plan, member);

    if (!plain || call.bytes < plan->least)
        return;
    plan->split->apart[member] = plan->transfer->copy_fits(&call);
    plan->apart += plan->split->apart[member];
}

static bool choose(struct plan *plan)
{
    struct gf_visit visit;
    plan->transfer = gf_visit_transfer(&visit);
    if (!plan->transfer)
        return false;
    if (plan->transfer->copy_fits)
        gf_batch_each(plan->batch, try_member, plan);
    gf_visit_end(&visit);
    return plan->apart;
}

/* What the driver writes there after success is the driver's to know: it must do something. */
static void leave_one(struct plan *plan)
{
    size_t smallest = 0;

    if (plan->apart < plan->batch->count)
        return;
    for (size_t i = 1; i < plan->batch->count; i++)
        if (plan->batch->sizes[i] < plan->batch->sizes[smallest])
            smallest = i;
    plan->split->apart[smallest] = false;
    plan->apart--;
}

/* False, with nothing to end, if the whole is the driver's. */
static bool take_apart(struct plan *plan, bool has_fail_idx)
{
    if (gf_thread.guard || !gf_batch_is_sound(plan->batch))
        return false;
    gf_count_more(plan->hook, plan->batch->count - 1);
    plan->least = gf_offer_least();
    gf_batch_each(plan->batch, count_member, plan);
    if (gf_likely(!plan->candidates) || !plan->stream || plan->stream == CU_STREAM_LEGACY ||
        !gf_split_begin(plan->batch, plan->split))
        return false;
    if (choose(plan) && has_fail_idx)
        leave_one(plan);
    if (!plan->apart)
        gf_split_end(plan->split);
    else
        gf_split_rest(plan->batch, plan->split);
    return plan->apart;
}

static CUresult submit_rest(const struct entry *entry, const struct gf_split *split,
                            size_t *fail_idx)
{
    const size_t untouched = SIZE_MAX - 1;
    size_t failed = untouched;

    if (!split->rest.count)
        return CUDA_SUCCESS;
    const CUresult result = submit(entry, &split->rest, fail_idx ? &failed : NULL);
    if (fail_idx && failed != untouched)
        *fail_idx = failed < split->rest.count ? split->rest_members[failed] : failed;
    return result;
}

/* The engine may have changed its mind: the ring is full, a capture has begun. */
static CUresult submit_apart(const struct entry *entry, const struct plan *plan, size_t member,
                             size_t *fail_idx)
{
    const struct gf_copy_call call = call_of(plan, member);
    struct gf_offer offer = {.call = &call};
    struct gf_single single;

    if (gf_offer_to_engine(&offer))
        return offer.result;
    gf_batch_single(plan->batch, member, &single);
    const CUresult result = gf_offer_end(&offer, submit(entry, &single.batch, fail_idx));
    if (result != CUDA_SUCCESS && fail_idx && *fail_idx == 0)
        *fail_idx = member;
    return result;
}

static CUresult copy_batch(enum gf_hook hook, const struct entry *entry,
                           const struct gf_batch *batch, size_t *fail_idx, CUstream means)
{
    struct gf_split split;
    struct plan plan = {.hook = hook, .batch = batch, .stream = means, .split = &split};
    const int error = errno;

    const bool is_apart = take_apart(&plan, fail_idx);
    errno = error;
    if (!is_apart)
        return submit(entry, batch, fail_idx);
    CUresult result = submit_rest(entry, &split, fail_idx);
    for (size_t i = 0; i < batch->count && result == CUDA_SUCCESS; i++)
        if (split.apart[i])
            result = submit_apart(entry, &plan, i, fail_idx);
    gf_split_end(&split);
    return result;
}

#define PARAMETERS                                                                                 \
    CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs,  \
        size_t *attrsIdxs, size_t numAttrs
#define BATCH                                                                                      \
    &(const struct gf_batch)                                                                       \
    {                                                                                              \
        dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs                                       \
    }

/* CUDA 12.8 and 12.9. */
#define BATCH_V1(symbol, none)                                                                     \
    CUresult gf_on_##symbol(PARAMETERS, size_t *failIdx, CUstream hStream)                         \
    {                                                                                              \
        const struct entry entry = {.v1 = GF_REAL(symbol), .stream = hStream};                     \
        if (!entry.v1)                                                                             \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        return copy_batch(gf_hook_##symbol, &entry, BATCH, failIdx, hStream ? hStream : none);     \
    }                                                                                              \
    GF_ENTRY(symbol)

/* Since CUDA 13: without failIdx. */
#define BATCH_V2(symbol, none)                                                                     \
    CUresult gf_on_##symbol(PARAMETERS, CUstream hStream)                                          \
    {                                                                                              \
        const struct entry entry = {.v2 = GF_REAL(symbol), .stream = hStream};                     \
        if (!entry.v2)                                                                             \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        return copy_batch(gf_hook_##symbol, &entry, BATCH, NULL, hStream ? hStream : none);        \
    }                                                                                              \
    GF_ENTRY(symbol)

BATCH_V1(cuMemcpyBatchAsync, GF_IN_LEGACY);
BATCH_V1(cuMemcpyBatchAsync_ptsz, GF_IN_THREAD);
BATCH_V2(cuMemcpyBatchAsync_v2, GF_IN_LEGACY);
BATCH_V2(cuMemcpyBatchAsync_v2_ptsz, GF_IN_THREAD);
