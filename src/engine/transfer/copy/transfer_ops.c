/* SPDX-License-Identifier: Apache-2.0 */
/* Serves the program's allocations of pinned memory. */
#include "engine/transfer/copy/transfer_ops.h"

#include "abi/cuda.h"
#include "base/base.h"
#include "engine/transfer/capture_gate.h"
#include "engine/transfer/context.h"
#include "engine/transfer/copy/admission.h"
#include "engine/transfer/copy/copy_ops.h"
#include "engine/transfer/copy/ring.h"
#include "engine/transfer/copy/ring_size.h"
#include "engine/transfer/files/imports.h"
#include "engine/transfer/files/readahead.h"
#include "engine/transfer/files/replaced_calls.h"
#include "engine/transfer/files/unmap.h"
#include "engine/transfer/hold.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/pinned/kept_mapping.h"
#include "engine/transfer/pinned/pinned.h"
#include "engine/transfer/pinned/pinned_buffer.h"
#include "engine/transfer/pinned/pinned_cache.h"
#include "engine/transfer/prepare.h"

/* See host_alloc in transfer_api.h. */
static bool gf_host_alloc(void **pp, size_t bytes, unsigned flags, CUresult *ret_result)
{
    gf_imports_request(bytes);
    return gf_pinned_alloc(pp, bytes, flags, ret_result);
}

/* The block is not counted in its mapping, so no mapping is judged by its count from now on. */
static void gf_host_alloc_inside(void)
{
    gf_pinned_cache_set_complete(false);
}

/*
 * Serves the program's frees of pinned memory, and finds which calls wait for the context's work.
 * After a call that waited, unused segments of the context's ring are removed.
 */

/*
 * Whether the driver waits for the context's work when it frees p. It does not wait if p is a small
 * block, which shares its mapping with other blocks, or if p belongs to another context.
 */
static bool host_free_waits(CUdeviceptr p, const struct gf_context *context)
{
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    CUcontext owner = NULL;
    size_t bytes = 0;
    void *into[] = {&owner, &bytes};
    return gf_setup.cuda->cuPointerGetAttributes(GF_ARRAY_LEN(what), what, into, p) ==
               CUDA_SUCCESS &&
           owner == context->handle && bytes > GF_PINNED_CACHE_MOST;
}

/*
 * Whether the driver waits for the context's work when it frees the device memory at p. It does not
 * wait for memory of a pool. A free of memory of another context waits only for that context.
 */
static bool device_free_waits(CUdeviceptr p, const struct gf_context *context)
{
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_CONTEXT,
                                  CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    CUcontext owner = NULL;
    CUmemoryPool pool = NULL;
    void *into[] = {&owner, &pool};
    return p &&
           gf_setup.cuda->cuPointerGetAttributes(GF_ARRAY_LEN(what), what, into, p) ==
               CUDA_SUCCESS &&
           owner == context->handle && !pool;
}

/*
 * Whether the free of p waits for the current context's work. If so, segments of the ring may be
 * removed after the free.
 */
static bool free_may_trim(CUdeviceptr p, bool (*waits)(CUdeviceptr, const struct gf_context *))
{
    struct gf_context *context = gf_ring_trim_is_due() ? gf_context_enter() : NULL;
    const bool may = context && waits(p, context);
    if (context)
        gf_context_leave(context);
    return may;
}

/*
 * Called after a successful call that waited. If a capture forbade waiting, that call would have
 * failed. Beside calls of other threads, a later call releases the memory, as in gf_ring_trim.
 */
static void trim_ring(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    struct gf_context *context = gf_hold_others_submit() ? NULL : gf_context_enter();
    if (!context)
        return;
    if (gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS) {
        gf_ring_trim(context);
        if (!gf_hold_others_submit())
            gf_pinned_trim_if_short(context);
        gf_setup.cuda->cuThreadExchangeStreamCaptureMode(&mode);
    }
    gf_context_leave(context);
}

/*
 * Leaves the context before the driver's free. The free may wait for the device, and a thread that
 * is inside a context delays the end of that context.
 */
/* The member host_free of struct gf_transfer_ops. */
static bool gf_host_free(void *p, CUresult *ret_result)
{
    gf_memcpy_unpinned(p);
    const bool trims = free_may_trim((uintptr_t)p, host_free_waits);
    const bool done = gf_pinned_free(p, ret_result);

    if (!trims)
        return done;
    if (!done)
        *ret_result = gf_setup.cuda->cuMemFreeHost(p);
    if (*ret_result == CUDA_SUCCESS)
        trim_ring();
    return true;
}

/* The member host_unregister of struct gf_transfer_ops. */
static bool gf_host_unregister(void *p, CUresult *ret_result)
{
    gf_memcpy_unpinned(p);
    return gf_pinned_unregister(p, ret_result);
}

/* The member device_free_waits of struct gf_transfer_ops. */
static bool gf_device_free_waits(CUdeviceptr p)
{
    return free_may_trim(p, device_free_waits);
}

/* The member waited of struct gf_transfer_ops. */
static void gf_host_waited(void)
{
    if (gf_ring_trim_is_due())
        trim_ring();
}

const struct gf_transfer_ops *gf_transfer_start(const struct gf_transfer_setup *setup)
{
    static struct gf_transfer_ops ops = {
        .copy = gf_copy_ops_copy,
        .copy_declined = gf_copy_ops_declined,
        .copy_fits = gf_copy_ops_fits,
        .batch_end = gf_hold_end_batch,
        .host_alloc = gf_host_alloc,
        .host_free = gf_host_free,
        .host_alloc_inside = gf_host_alloc_inside,
        .host_unregister = gf_host_unregister,
        .host_register = gf_pinned_register,
        .host_pinned = gf_memcpy_pinned,
        .host_flags = gf_pinned_flags,
        .host_mapping = gf_pinned_buffer_mapping,
        .device_free_waits = gf_device_free_waits,
        .waited = gf_host_waited,
        .unmap = gf_unmap,
        .unmapped = gf_unmapped,
        .await_hold = gf_hold_await,
        .capture_begins = gf_capture_begins,
        .capture_begun = gf_capture_begun,
        .context_leaving = gf_context_leaving,
        .context_left = gf_context_left,
    };
    static void (*const context_ends[])(struct gf_context *) = {gf_pinned_end, gf_ring_end,
                                                                gf_memcpy_end, NULL};
    const struct gf_options *options = setup->options;
    const bool stages = options->stage != gf_stage_off;
    const bool observes = options->mode == gf_mode_observe;

    gf_setup_set(setup);
    gf_pinned_cache_set_complete(false);
    gf_vma_query_start();
    gf_context_on_end(context_ends);
    gf_admission_start(&ops);
    if (!stages || observes)
        ops.unmap = NULL;
    if (gf_admission_off())
        ops.await_hold = NULL;
    else
        gf_hold_start();
    return stages || (options->pin != gf_pin_off && !observes) ? &ops : NULL;
}

void gf_transfer_memory_is_short(void)
{
    gf_ring_trim_soon();
    gf_kept_limit_short();
}

void gf_transfer_joined(bool allocated)
{
    gf_pinned_cache_set_complete(!allocated);
    if (gf_setup.options && gf_setup.options->pin == gf_pin_auto && gf_setup.options->pin_cache)
        gf_kept_mapping_forks();
}

void gf_transfer_prepare(void)
{
    gf_prepare_pools();
    gf_readahead_prepare();
    gf_rings_prepare();
    gf_imports_prepare();
}

/* devices: bits of the devices whose limit was added. */
static void add_context(struct gf_transfer_state *state, struct gf_context *context,
                        uint64_t *devices)
{
    const uint64_t device = UINT64_C(1) << (unsigned)context->device % 64;
    struct gf_ring *ring = gf_load_acquire(&context->ring);
    if (!ring)
        return;
    gf_ring_held(ring, state->ring_held);
    state->rings++;
    state->ring_bytes += gf_ring_bytes(ring);
    if (!(*devices & device)) /* all rings of a GPU share the limit */
        state->ring_limit += gf_ring_limit(ring);
    *devices |= device;
    state->helpers = gf_max(state->helpers, gf_pool_helpers(context->pool));
}

void gf_transfer_state(struct gf_transfer_state *ret)
{
    uint64_t devices = 0;

    *ret =
        (struct gf_transfer_state){.off = gf_admission_off(),
                                   .ring_most = gf_copy_stats_ring_most(),
                                   .pinned_kept = gf_pinned_cache_kept() + gf_kept_mapping_bytes(),
                                   .unmap_pending = gf_unmap_pending()};
    ret->threads = gf_admission_threads(ret->least);
    gf_pinned_buffer_held(ret->pinned_held);
    GF_EACH_CONTEXT(context)
        add_context(ret, context, &devices);
}
