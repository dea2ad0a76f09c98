/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/api/transfer_ops.h"

#include "engine/transfer/api/host_alloc.h"
#include "engine/transfer/api/host_free.h"
#include "engine/transfer/capture_gate.h"
#include "engine/transfer/hold.h"
#include "engine/transfer/copy/admission.h"
#include "engine/transfer/copy/copy_explain.h"
#include "engine/transfer/copy/copy_ops.h"
#include "engine/transfer/files/imports.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/pinned/pinned.h"
#include "engine/transfer/pinned/kept_mapping.h"
#include "engine/transfer/pinned/pinned_buffer.h"
#include "engine/transfer/pinned/pinned_cache.h"
#include "engine/transfer/prepare.h"
#include "engine/transfer/files/readahead.h"
#include "engine/transfer/files/unmap.h"
#include "engine/transfer/staging/ring_due.h"
#include "engine/transfer/staging/ring_grow.h"
#include "engine/transfer/staging/ring_trim.h"

const struct gf_transfer_ops *gf_transfer_start(const struct gf_transfer_setup *setup)
{
    static struct gf_transfer_ops ops = {
        .copy = gf_copy_ops_copy,
        .copy_declined = gf_copy_ops_declined,
        .copy_fits = gf_copy_ops_fits,
        .batch_end = gf_hold_end_batch,
        .host_alloc = gf_host_alloc,
        .host_free = gf_host_free,
        .host_unregister = gf_pinned_unregister,
        .host_register = gf_pinned_register,
        .host_flags = gf_pinned_flags,
        .host_mapping = gf_pinned_mapping_size,
        .device_free_waits = gf_device_free_waits,
        .waited = gf_host_waited,
        .unmap = gf_unmap,
        .await_hold = gf_hold_await,
        .capture_begins = gf_capture_begins,
        .capture_begun = gf_capture_begun,
        .context_leaving = gf_context_leaving,
        .context_left = gf_context_left,
    };
    static void (*const context_ends[])(struct gf_context *) = {gf_pinned_end, gf_ring_end, NULL};
    const struct gf_options *options = setup->options;
    const bool stages = options->stage != gf_stage_off;
    const bool observes = options->mode == gf_mode_observe;

    gf_setup_set(setup);
    gf_pinned_cache_set_complete(false);
    gf_vma_query_start();
    gf_context_on_end(context_ends);
    gf_admission_start();
    gf_copy_explain_start(gf_admission_off(),
                          (size_t[]){[gf_direction_h2d] = gf_admission_least(gf_direction_h2d),
                                     [gf_direction_d2h] = gf_admission_least(gf_direction_d2h)});
    ops.copy_least = gf_admission_offer_least();
    ops.copy_least_shared = gf_admission_shared_least();
    ops.copy_sharers = gf_admission_sharers();
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

void gf_transfer_follow(const struct gf_cpus *program)
{
    gf_pools_follow(program);
}

struct sums {
    struct gf_transfer_state *state;
    uint64_t devices; /* bits of the devices whose limit was added */
};

static void add_context(void *closure, struct gf_context *context)
{
    struct sums *sums = closure;
    struct gf_transfer_state *const state = sums->state;
    const uint64_t device = UINT64_C(1) << (unsigned)context->device % 64;
    struct gf_ring *ring = gf_load_acquire(&context->ring);
    if (!ring)
        return;
    gf_ring_held(ring, state->ring_held);
    state->rings++;
    state->ring_bytes += gf_ring_bytes(ring);
    if (!(sums->devices & device)) /* all rings of a GPU share the limit */
        state->ring_limit += gf_ring_limit(ring);
    sums->devices |= device;
    state->helpers = gf_max(state->helpers, gf_pool_helpers(context->pool));
}

void gf_transfer_state(struct gf_transfer_state *ret)
{
    *ret =
        (struct gf_transfer_state){.off = gf_admission_off(),
                                   .ring_most = gf_copy_stats_ring_most(),
                                   .pinned_kept = gf_pinned_cache_kept() + gf_kept_mapping_bytes(),
                                   .unmap_pending = gf_unmap_pending()};
    gf_readahead_count(&ret->readahead);
    gf_hold_count(&ret->holds);
    gf_imports_count(&ret->parallel_memcpy, &ret->parallel_read);
    gf_pinned_buffer_held(ret->pinned_held);
    gf_context_each(add_context, &(struct sums){.state = ret});
}
