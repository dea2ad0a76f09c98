/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, batches, fills. */
#include "preload/attach/attach.h"
#include "preload/hook/copy_offload.h"
#include "preload/hook/copy_shapes.h"
#include "preload/hook/driver_call.h"

/*
 * The hooks of linear copies between host and device. Large copies are offered to the engine, which
 * keeps the driver's semantics. Small copies, and copies that the engine declines, go to the driver
 * with the caller's arguments.
 *
 * The macro COPY creates the names gf_on_<symbol>. So if you search for the name of a driver
 * function, you find it in the list at the end of the file.
 */

/*
 * Defines the hook of `symbol` from its parameters, in parentheses, and the values of the members of
 * gf_copy_call. linear: whether the copy has a shape that can be staged.
 */
#define COPY_OF_SHAPE(symbol, run, linear, parameters, ...)                                        \
    CUresult gf_on_##symbol(GF_PARAMETERS parameters)                                              \
    {                                                                                              \
        struct gf_copy_offload offload;                                                            \
        struct gf_copy_call call = {__VA_ARGS__};                                                  \
        GF_FIND_REAL(symbol);                                                                      \
        const bool is_linear = linear;                                                             \
        return run(symbol, call,                                                                   \
                   gf_copy_offload(&offload, gf_hook_##symbol, &call, is_linear)                   \
                       ? offload.result                                                            \
                       : gf_copy_offload_end(&offload, real(GF_ARGUMENTS parameters)));            \
    }                                                                                              \
    GF_ENTRY(symbol)
#define COPY(symbol, run, ...) COPY_OF_SHAPE(symbol, run, true, __VA_ARGS__)

#define COPY_ANY(symbol, null_stream)                                                              \
    COPY(symbol, GF_RUN_BLOCKING, ((CUdeviceptr)dst, (CUdeviceptr)src, (size_t)ByteCount),         \
         gf_copy_any, false, dst, src, ByteCount, null_stream)

#define COPY_ANY_ASYNC(symbol, null_stream)                                                        \
    COPY(symbol, GF_RUN_ASYNC,                                                                     \
         ((CUdeviceptr)dst, (CUdeviceptr)src, (size_t)ByteCount, (CUstream)hStream), gf_copy_any,  \
         true, dst, src, ByteCount, hStream ? hStream : null_stream)

#define COPY_H2D(symbol, null_stream)                                                              \
    COPY(symbol, GF_RUN_BLOCKING,                                                                  \
         ((CUdeviceptr)dstDevice, (const void *)srcHost, (size_t)ByteCount), gf_copy_h2d, false,   \
         dstDevice, (uintptr_t)srcHost, ByteCount, null_stream)

#define COPY_H2D_ASYNC(symbol, null_stream)                                                        \
    COPY(symbol, GF_RUN_ASYNC,                                                                     \
         ((CUdeviceptr)dstDevice, (const void *)srcHost, (size_t)ByteCount, (CUstream)hStream),    \
         gf_copy_h2d, true, dstDevice, (uintptr_t)srcHost, ByteCount,                              \
         hStream ? hStream : null_stream)

#define COPY_D2H(symbol, null_stream)                                                              \
    COPY(symbol, GF_RUN_BLOCKING, ((void *)dstHost, (CUdeviceptr)srcDevice, (size_t)ByteCount),    \
         gf_copy_d2h, false, (uintptr_t)dstHost, srcDevice, ByteCount, null_stream)

#define COPY_D2H_ASYNC(symbol, null_stream)                                                        \
    COPY(symbol, GF_RUN_ASYNC,                                                                     \
         ((void *)dstHost, (CUdeviceptr)srcDevice, (size_t)ByteCount, (CUstream)hStream),          \
         gf_copy_d2h, true, (uintptr_t)dstHost, srcDevice, ByteCount,                              \
         hStream ? hStream : null_stream)

GF_BLOCKING_PAIR(COPY_ANY, cuMemcpy);
GF_STREAM_PAIR(COPY_ANY_ASYNC, cuMemcpyAsync);
GF_BLOCKING_PAIR(COPY_H2D, cuMemcpyHtoD_v2);
GF_STREAM_PAIR(COPY_H2D_ASYNC, cuMemcpyHtoDAsync_v2);
GF_BLOCKING_PAIR(COPY_D2H, cuMemcpyDtoH_v2);
GF_STREAM_PAIR(COPY_D2H_ASYNC, cuMemcpyDtoHAsync_v2);

/*
 * The hooks of batches of copies. First, all members that cannot be staged go to the driver as one
 * batch. If the driver refuses that batch, the program gets the driver's result and failIdx, and
 * nothing is staged. Otherwise the remaining members then go to the engine one by one. If no member
 * can certainly be staged, the driver gets the whole batch unchanged.
 */

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
    GF_WITH_TRANSFER({
        plan->transfer = transfer;
        if (transfer->copy_fits)
            gf_batch_each(plan->batch, try_member, plan);
    });
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
    gf_split_end(plan->split);
    GF_WITH_TRANSFER(if (transfer->batch_end) transfer->batch_end());
}

/* False if the driver gets the whole batch; then do not call end_batch. */
static bool split_batch(struct plan *plan, bool has_fail_idx)
{
    if (gf_thread.inside || !gf_batch_is_sound(plan->batch))
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

#define COPY_BATCH(symbol, null_stream, version, parameters, fail_idx)                             \
    CUresult gf_on_##symbol parameters                                                             \
    {                                                                                              \
        GF_FIND_REAL(symbol);                                                                      \
        const struct entry entry = {.version = real, .stream = hStream};                           \
        const CUstream stream = hStream ? hStream : null_stream;                                   \
        return GF_SUBMIT_VISIBLE(stream, gf_work_copy,                                             \
                                 copy_batch(gf_hook_##symbol, &entry, BATCH, fail_idx, stream));   \
    }                                                                                              \
    GF_ENTRY(symbol)

/* The version of CUDA 12.8 and 12.9, with failIdx, and that of CUDA 13. */
#define BATCH_V1(symbol, null_stream)                                                              \
    COPY_BATCH(symbol, null_stream, v1, (PARAMETERS, size_t * failIdx, CUstream hStream), failIdx)
#define BATCH_V2(symbol, null_stream)                                                              \
    COPY_BATCH(symbol, null_stream, v2, (PARAMETERS, CUstream hStream), NULL)

GF_STREAM_PAIR(BATCH_V1, cuMemcpyBatchAsync);
GF_STREAM_PAIR(BATCH_V2, cuMemcpyBatchAsync_v2);

/* The hooks of 2D and 3D copies. A contiguous block is handled as a linear copy. */

/* `shape` is gf_linear_copy_2d or gf_linear_copy_3d. */
#define BLOCK(symbol, run, shape, is_async, on, ...)                                               \
    COPY_OF_SHAPE(symbol, run, shape(pCopy, &call), (__VA_ARGS__), gf_copy_any, is_async,          \
                  .stream = on)

#define BLOCK_2D(symbol, null_stream)                                                              \
    BLOCK(symbol, GF_RUN_BLOCKING, gf_linear_copy_2d, false, null_stream,                          \
          (const CUDA_MEMCPY2D *)pCopy)
#define BLOCK_2D_ASYNC(symbol, null_stream)                                                        \
    BLOCK(symbol, GF_RUN_ASYNC, gf_linear_copy_2d, true, hStream ? hStream : null_stream,          \
          (const CUDA_MEMCPY2D *)pCopy, (CUstream)hStream)
#define BLOCK_3D(symbol, null_stream)                                                              \
    BLOCK(symbol, GF_RUN_BLOCKING, gf_linear_copy_3d, false, null_stream,                          \
          (const CUDA_MEMCPY3D *)pCopy)
#define BLOCK_3D_ASYNC(symbol, null_stream)                                                        \
    BLOCK(symbol, GF_RUN_ASYNC, gf_linear_copy_3d, true, hStream ? hStream : null_stream,          \
          (const CUDA_MEMCPY3D *)pCopy, (CUstream)hStream)

GF_BLOCKING_PAIR(BLOCK_2D, cuMemcpy2D_v2);
GF_BLOCKING_PAIR(BLOCK_2D, cuMemcpy2DUnaligned_v2);
GF_STREAM_PAIR(BLOCK_2D_ASYNC, cuMemcpy2DAsync_v2);
GF_BLOCKING_PAIR(BLOCK_3D, cuMemcpy3D_v2);
GF_STREAM_PAIR(BLOCK_3D_ASYNC, cuMemcpy3DAsync_v2);

/*
 * The hooks of work that accesses only device memory: fills, and copies within or between devices.
 */

#define FILL(symbol, type)                                                                         \
    GF_SUBMIT_BLOCKING(symbol, gf_work_kernel, (CUdeviceptr)dstDevice, (type)value, (size_t)N)
#define FILL_ASYNC(symbol, type)                                                                   \
    GF_SUBMIT_STREAM(symbol, hStream, gf_work_kernel, (CUdeviceptr)dstDevice, (type)value,         \
                     (size_t)N, (CUstream)hStream)
#define FILL_2D(symbol, type)                                                                      \
    GF_SUBMIT_BLOCKING(symbol, gf_work_kernel, (CUdeviceptr)dstDevice, (size_t)dstPitch,           \
                       (type)value, (size_t)Width, (size_t)Height)
#define FILL_2D_ASYNC(symbol, type)                                                                \
    GF_SUBMIT_STREAM(symbol, hStream, gf_work_kernel, (CUdeviceptr)dstDevice, (size_t)dstPitch,    \
                     (type)value, (size_t)Width, (size_t)Height, (CUstream)hStream)

FILL(cuMemsetD8_v2, unsigned char);
FILL(cuMemsetD16_v2, unsigned short);
FILL(cuMemsetD32_v2, unsigned int);
FILL_2D(cuMemsetD2D8_v2, unsigned char);
FILL_2D(cuMemsetD2D16_v2, unsigned short);
FILL_2D(cuMemsetD2D32_v2, unsigned int);
FILL_ASYNC(cuMemsetD8Async, unsigned char);
FILL_ASYNC(cuMemsetD16Async, unsigned short);
FILL_ASYNC(cuMemsetD32Async, unsigned int);
FILL_2D_ASYNC(cuMemsetD2D8Async, unsigned char);
FILL_2D_ASYNC(cuMemsetD2D16Async, unsigned short);
FILL_2D_ASYNC(cuMemsetD2D32Async, unsigned int);

/* A copy within a device counts as a kernel, because it does not use the link to the host. */
GF_SUBMIT_BLOCKING(cuMemcpyDtoD_v2, gf_work_kernel, (CUdeviceptr)dstDevice, (CUdeviceptr)srcDevice,
                   (size_t)ByteCount);
GF_SUBMIT_STREAM(cuMemcpyDtoDAsync_v2, hStream, gf_work_kernel, (CUdeviceptr)dstDevice,
                 (CUdeviceptr)srcDevice, (size_t)ByteCount, (CUstream)hStream);
GF_SUBMIT_BLOCKING(cuMemcpyPeer, gf_work_copy, (CUdeviceptr)dstDevice, (CUcontext)dstContext,
                   (CUdeviceptr)srcDevice, (CUcontext)srcContext, (size_t)ByteCount);
GF_SUBMIT_STREAM(cuMemcpyPeerAsync, hStream, gf_work_copy, (CUdeviceptr)dstDevice,
                 (CUcontext)dstContext, (CUdeviceptr)srcDevice, (CUcontext)srcContext,
                 (size_t)ByteCount, (CUstream)hStream);
GF_SUBMIT_BLOCKING(cuMemcpy3DPeer, gf_work_copy, (const CUDA_MEMCPY3D_PEER *)pCopy);
GF_SUBMIT_STREAM_VISIBLE(cuMemcpy3DPeerAsync, hStream, gf_work_copy,
                         (const CUDA_MEMCPY3D_PEER *)pCopy, (CUstream)hStream);
