/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of batches of copies. First, all members that cannot be staged go to the driver as one
 * batch. If the driver refuses that batch, the program gets the driver's result and failIdx, and
 * nothing is staged. Otherwise the remaining members then go to the engine one by one. If no member
 * can certainly be staged, the driver gets the whole batch unchanged.
 */
#include "preload/hook/attach/engine_call.h"
#include "preload/hook/cuda/batch.h"
#include "preload/hook/cuda/copy_offload.h"

/*
 * The version of the driver's function that the program called (v1 or v2; the other pointer is
 * NULL), and the program's stream.
 */
struct entry {
    __typeof__(cuMemcpyBatchAsync) *v1;
    __typeof__(cuMemcpyBatchAsync_v2) *v2;
    CUstream stream;
};

struct plan {
    enum gf_hook hook;
    const struct gf_batch *batch;
    CUstream stream;   /* never 0 */
    size_t least;      /* size of the smallest copy that is offered to the engine */
    size_t candidates; /* number of members that the engine may stage */
    struct gf_split *split;
    const struct gf_transfer_ops *transfer;
    size_t staged; /* number of members that go to the engine */
};

static CUresult submit_batch(const struct entry *entry, const struct gf_batch *b, size_t *fail_idx)
{
    if (entry->v1)
        return entry->v1(b->dsts, b->srcs, b->sizes, b->count, b->attrs, b->attrs_idxs,
                         b->attr_count, fail_idx, entry->stream);
    return entry->v2(b->dsts, b->srcs, b->sizes, b->count, b->attrs, b->attrs_idxs, b->attr_count,
                     entry->stream);
}

/*
 * Describes a member to the engine. The engine declines copies from the device, because their
 * source access order is not documented.
 */
static struct gf_copy_call call_of_member(const struct plan *plan, size_t member)
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
    const struct gf_copy_call call = call_of_member(plan, member);

    if (!plain || call.bytes < plan->least)
        return;
    plan->split->staged[member] = plan->transfer->copy_fits(&call);
    plan->staged += plan->split->staged[member];
}

static bool choose_members(struct plan *plan)
{
    struct gf_engine_call call;
    plan->transfer = gf_engine_call_transfer(&call);
    if (!plan->transfer)
        return false;
    if (plan->transfer->copy_fits)
        gf_batch_each(plan->batch, try_member, plan);
    gf_engine_call_end(&call);
    return plan->staged;
}

/*
 * If all members would be staged, leaves the smallest one to the driver. It is not documented which
 * value the driver stores in failIdx after a success, so the driver must store it.
 */
static void leave_smallest(struct plan *plan)
{
    size_t smallest = 0;

    if (plan->staged < plan->batch->count)
        return;
    for (size_t i = 1; i < plan->batch->count; i++)
        if (plan->batch->sizes[i] < plan->batch->sizes[smallest])
            smallest = i;
    plan->split->staged[smallest] = false;
    plan->staged--;
}

static void end_batch(const struct plan *plan)
{
    struct gf_engine_call call;
    const struct gf_transfer_ops *transfer = gf_engine_call_transfer(&call);

    gf_split_end(plan->split);
    if (!transfer)
        return;
    if (transfer->batch_end)
        transfer->batch_end();
    gf_engine_call_end(&call);
}

/* False if the driver gets the whole batch; then do not call end_batch. */
static bool split_batch(struct plan *plan, bool has_fail_idx)
{
    if (gf_thread.guard || !gf_batch_is_sound(plan->batch))
        return false;
    gf_count_more(plan->hook, plan->batch->count - 1);
    plan->least = gf_copy_offload_least();
    gf_batch_each(plan->batch, count_member, plan);
    if (gf_likely(!plan->candidates) || !plan->stream || plan->stream == CU_STREAM_LEGACY ||
        !gf_split_begin(plan->batch, plan->split))
        return false;
    if (choose_members(plan) && has_fail_idx)
        leave_smallest(plan);
    if (!plan->staged)
        end_batch(plan);
    else
        gf_split_rest(plan->batch, plan->split);
    return plan->staged;
}

static CUresult submit_rest(const struct entry *entry, const struct gf_split *split,
                            size_t *fail_idx)
{
    const size_t untouched = SIZE_MAX - 1;
    size_t failed = untouched;

    if (!split->rest.count)
        return CUDA_SUCCESS;
    const CUresult result = submit_batch(entry, &split->rest, fail_idx ? &failed : NULL);
    if (fail_idx && failed != untouched)
        *fail_idx = failed < split->rest.count ? split->rest_members[failed] : failed;
    return result;
}

/*
 * Submits one member that was to be staged. The engine may decline it even now, for example if the
 * ring is full or a capture has begun.
 */
static CUresult submit_member(const struct entry *entry, const struct plan *plan, size_t member,
                              size_t *fail_idx)
{
    const struct gf_copy_call call = call_of_member(plan, member);
    struct gf_copy_offload offload = {.call = &call};
    struct gf_single single;

    if (gf_copy_offload_to_engine(&offload))
        return offload.result;
    gf_batch_single(plan->batch, member, &single);
    const CUresult result =
        gf_copy_offload_end(&offload, submit_batch(entry, &single.batch, fail_idx));
    if (result != CUDA_SUCCESS && fail_idx && *fail_idx == 0)
        *fail_idx = member;
    return result;
}

static CUresult copy_batch(enum gf_hook hook, const struct entry *entry,
                           const struct gf_batch *batch, size_t *fail_idx, CUstream stream)
{
    struct gf_split split;
    struct plan plan = {.hook = hook, .batch = batch, .stream = stream, .split = &split};
    const int error = errno;

    const bool is_split = split_batch(&plan, fail_idx);
    errno = error;
    if (!is_split)
        return submit_batch(entry, batch, fail_idx);
    CUresult result = submit_rest(entry, &split, fail_idx);
    for (size_t i = 0; i < batch->count && result == CUDA_SUCCESS; i++)
        if (split.staged[i])
            result = submit_member(entry, &plan, i, fail_idx);
    end_batch(&plan);
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

/* The version of CUDA 12.8 and 12.9, with failIdx. */
#define BATCH_V1(symbol, null_stream)                                                              \
    CUresult gf_on_##symbol(PARAMETERS, size_t *failIdx, CUstream hStream)                         \
    {                                                                                              \
        const struct entry entry = {.v1 = GF_REAL(symbol), .stream = hStream};                     \
        if (!entry.v1)                                                                             \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        const CUstream stream = hStream ? hStream : null_stream;                                   \
        return gf_submit_visible(                                                                  \
            stream, GF_SUBMIT(stream, gf_work_copy,                                                \
                              copy_batch(gf_hook_##symbol, &entry, BATCH, failIdx, stream)));      \
    }                                                                                              \
    GF_ENTRY(symbol)

/* The version of CUDA 13, without failIdx. */
#define BATCH_V2(symbol, null_stream)                                                              \
    CUresult gf_on_##symbol(PARAMETERS, CUstream hStream)                                          \
    {                                                                                              \
        const struct entry entry = {.v2 = GF_REAL(symbol), .stream = hStream};                     \
        if (!entry.v2)                                                                             \
            return CUDA_ERROR_NOT_FOUND;                                                           \
        const CUstream stream = hStream ? hStream : null_stream;                                   \
        return gf_submit_visible(                                                                  \
            stream, GF_SUBMIT(stream, gf_work_copy,                                                \
                              copy_batch(gf_hook_##symbol, &entry, BATCH, NULL, stream)));         \
    }                                                                                              \
    GF_ENTRY(symbol)

GF_STREAM_PAIR(BATCH_V1, cuMemcpyBatchAsync);
GF_STREAM_PAIR(BATCH_V2, cuMemcpyBatchAsync_v2);
