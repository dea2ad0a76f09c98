/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/pinned.h"

#include "base/clock.h"
#include "base/log.h"
#include "host/headroom.h"
#include "transfer/context.h"
#include "transfer/extent.h"
#include "transfer/large.h"
#include "transfer/pinned_stats.h"
#include "transfer/plant.h"
#include "transfer/prepare.h"
#include "transfer/preplace.h"
#include "transfer/setup.h"
#include "transfer/small.h"
#include "transfer/tell.h"
#include "transfer/tuning.h"

#define LARGE_MOST ((size_t)64 << 30)
#define SERVED_FLAGS ((unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP))

/* All atomic. */
static bool large_off;
static uint64_t chunks_until; /* when the next look at the memory left is due */
static unsigned chunks;       /* mappings that may be kept, at the last look */

#define COUNT(field, n) __atomic_fetch_add(&gf_pinned_counts.field, (n), __ATOMIC_RELAXED)

static bool is_on(void)
{
    return gf_setup.options->pin != gf_pin_off && gf_setup.options->mode == gf_mode_on;
}

static bool decline(enum gf_pinned_reason reason, size_t bytes)
{
    COUNT(driver_calls[reason], 1);
    COUNT(driver_bytes[reason], gf_bytes_counted(bytes));
    return false;
}

static void turn_large_off(const struct gf_fault *fault)
{
    char why[96];
    if (__atomic_exchange_n(&large_off, true, __ATOMIC_RELAXED))
        return;
    gf_fault_text(fault, why, sizeof(why));
    gf_transfer_tell(gf_transfer_off, GF_LOG_WARN,
                     "large pinned allocations are left to the driver from now on: %s", why);
}

/* Allocations. */

/* How many mappings may be kept in all; looked up once a second. */
static unsigned chunks_now(int node)
{
    const uint64_t now = gf_now_ns();
    struct gf_headroom headroom;

    if (now < __atomic_load_n(&chunks_until, __ATOMIC_RELAXED))
        return __atomic_load_n(&chunks, __ATOMIC_RELAXED);
    gf_headroom_read("", node, &headroom);
    uint64_t most = gf_setup.options->pin_cache;
    if (most == GF_SIZE_AUTO)
        most = gf_min(GF_TUNE_PIN_CACHE, headroom.bytes / 32);
    if (headroom.bytes < GF_TUNE_PIN_RESERVE)
        most = 0;
    const unsigned found = (unsigned)(most / GF_SMALL_CHUNK);
    __atomic_store_n(&chunks, found, __ATOMIC_RELAXED);
    __atomic_store_n(&chunks_until, now + GF_TUNE_PIN_LOOK_NS, __ATOMIC_RELAXED);
    return found;
}

/* Whether all devices, how many there are, know registered memory by its host address. */
static bool same_address(int *ret_count)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    int same = cuda->cuDeviceGetCount(ret_count) == CUDA_SUCCESS && *ret_count > 0;
    for (CUdevice device = 0; same && device < *ret_count; device++)
        if (cuda->cuDeviceGetAttribute(&same,
                                       CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
                                       device) != CUDA_SUCCESS)
            same = false;
    return same;
}

struct others {
    const struct gf_context *context;
    bool found;
};

static void see_device(void *closure, struct gf_context *context)
{
    struct others *others = closure;
    others->found |= context->device != others->context->device;
}

/*
 * Whether registered memory can be to all contexts what the driver's own is: that is pinned for all of them,
 * on all devices, and has one address, whatever its flags. What it takes on top is added to *flags, for contexts
 * that are yet to be made too. Two contexts of a device cannot tell (docs/conformance.md). Whether two devices
 * cannot is not measured: a process that uses a second one is left alone.
 */
static bool is_native(const struct gf_context *context, unsigned *flags)
{
    struct others others = {.context = context};
    int count = 0;
    if (!same_address(&count))
        return false;
    if (*flags & CU_MEMHOSTALLOC_PORTABLE)
        return true;
    *flags |= CU_MEMHOSTALLOC_PORTABLE;
    gf_context_each(see_device, &others);
    return !others.found;
}

static bool alloc_large(struct gf_context *context, void **pp, size_t bytes, unsigned flags,
                        CUresult *ret_result)
{
    const struct gf_large_wish wish = {.cuda = gf_setup.cuda,
                                       .pool = context->pool,
                                       .context = context->id,
                                       .flags = flags,
                                       .node = gf_setup.options->mem == gf_mem_off
                                                   ? -1
                                                   : context->node};
    const uint64_t since = gf_now_ns();
    struct gf_fault fault;
    unsigned as = flags;

    if (gf_pool_threads(context->pool) < GF_TUNE_PIN_THREADS && !gf_extent_is_huge())
        return decline(gf_pinned_slow, bytes);
    if (!is_native(context, &as))
        return decline(gf_pinned_devices, bytes);

    if (!gf_extent_fits(bytes, context->node)) {
        gf_debug("pinned allocation of %zu bytes left to the driver: too little memory is left",
                 bytes);
        return decline(gf_pinned_memory, bytes);
    }
    gf_prepare_helpers(context->pool, gf_when_now);
    *ret_result = CUDA_SUCCESS;
    if (gf_large_alloc(&wish, pp, bytes, as, ret_result, &fault)) {
        COUNT(large_calls, 1);
        COUNT(large_bytes, bytes);
        COUNT(large_ns, gf_now_ns() - since);
        return true;
    }
    if (!fault.call)
        return decline(*ret_result ? gf_pinned_context : gf_pinned_memory, bytes);
    turn_large_off(&fault);
    return decline(gf_pinned_failed, bytes);
}

static bool alloc_small(struct gf_context *context, void **pp, size_t bytes, unsigned flags,
                        CUresult *ret_result)
{
    if (!gf_small_can(gf_setup.cuda))
        return decline(gf_pinned_failed, bytes);
    *ret_result = gf_small_alloc(gf_setup.cuda, context->id, chunks_now(context->node), pp, bytes,
                                 flags);
    COUNT(small_calls, 1);
    COUNT(small_bytes, bytes);
    return true;
}

/* Below, the driver's first touch is as quick. */
static size_t large_least(void)
{
    return gf_extent_is_huge() ? GF_TUNE_PIN_LARGE_HUGE : GF_TUNE_PIN_LARGE;
}

static bool can_large(void)
{
    return gf_setup.cuda->cuDeviceGetCount && gf_setup.cuda->cuMemHostRegister_v2 &&
           gf_setup.cuda->cuMemHostUnregister &&
           !__atomic_load_n(&large_off, __ATOMIC_RELAXED);
}

bool gf_pinned_alloc(void **pp, size_t bytes, unsigned flags, CUresult *ret_result)
{
    if (!is_on())
        return false;
    if (GF_PLANTED(reuses_busy_buffers) && gf_plant_again(pp, bytes, ret_result))
        return true;
    const bool small = bytes <= GF_SMALL_MOST && gf_setup.options->pin_cache != 0;
    const bool large = bytes >= large_least() && bytes <= LARGE_MOST;
    if (!pp || !bytes || (flags & ~SERVED_FLAGS) || (!small && !large))
        return decline(gf_pinned_odd, bytes);
    if (large && !can_large())
        return decline(gf_pinned_failed, bytes);
    struct gf_context *context = gf_context_enter();
    if (!context)
        return decline(gf_pinned_context, bytes);
    bool done = false;
    if (context->shares_pages) /* Grace, Tegra: the driver knows better */
        decline(gf_pinned_context, bytes);
    else
        done = (large ? alloc_large : alloc_small)(context, pp, bytes, flags, ret_result);
    gf_context_leave(context);
    return done;
}

/* Frees. */

/* The id of the current context, which is not kept alive over a call that waits for its work. */
static bool current_id(uint64_t *ret, int *ret_node)
{
    struct gf_context *context = gf_context_enter();
    if (!context)
        return false;
    *ret = context->id;
    *ret_node = context->node;
    gf_context_leave(context);
    return true;
}

bool gf_pinned_free(void *p, CUresult *ret_result)
{
    struct gf_fault fault;
    uint64_t context = 0, kept;
    int node = -1;

    if (GF_PLANTED(reuses_busy_buffers) && gf_plant_keep(p, ret_result))
        return true;
    if (gf_large_free(gf_setup.cuda, p, ret_result, &fault)) {
        if (fault.call)
            turn_large_off(&fault);
        return true;
    }
    if (!gf_small_can(gf_setup.cuda))
        return false;
    const unsigned most = current_id(&context, &node) ? chunks_now(node) : 0;
    if (!gf_small_free(gf_setup.cuda, p, ret_result, &kept))
        return false;
    if (most == 0 && kept && kept == context && gf_small_trim(gf_setup.cuda, context))
        COUNT(trims, 1);
    return true;
}

bool gf_pinned_unregister(void *p, CUresult *ret_result)
{
    return gf_large_unregister(gf_setup.cuda, p, ret_result) ||
           gf_small_unregister(gf_setup.cuda, p, ret_result);
}

void gf_pinned_flags(const void *p, unsigned *flags)
{
    if (!gf_large_flags(p, flags) && gf_small_can(gf_setup.cuda))
        gf_small_flags(gf_setup.cuda, p, flags);
}

void gf_pinned_mapping(const void *p, size_t *bytes)
{
    gf_large_mapping(p, bytes);
}

void gf_pinned_forget(uint64_t context)
{
    gf_large_forget(context);
    gf_small_forget(context);
}

/* Registrations. */

static void preplace(void *p, size_t bytes, unsigned flags)
{
    if (bytes < GF_TUNE_PLACE_LEAST || (flags & ~SERVED_FLAGS) || !is_on() ||
        !gf_preplace_pays(p, bytes))
        return;
    struct gf_context *context = gf_context_enter();
    if (!context)
        return;
    if (gf_pool_threads(context->pool) > 1 && gf_extent_fits(bytes, -1)) {
        gf_prepare_helpers(context->pool, gf_when_now);
        if (gf_extent_populate(context->pool, p, bytes) == 0) {
            COUNT(placed_calls, 1);
            COUNT(placed_bytes, bytes);
        }
    }
    gf_context_leave(context);
}

bool gf_pinned_register(void *p, size_t bytes, unsigned flags, CUresult *ret_result)
{
    if (!gf_large_meets(p, bytes)) {
        preplace(p, bytes, flags);
        return false;
    }
    /* Memory that the driver gave is not "registered already" but no memory to register. */
    *ret_result = gf_setup.cuda->cuMemHostRegister_v2(p, bytes, flags);
    if (*ret_result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        *ret_result = CUDA_ERROR_INVALID_VALUE;
    return true;
}
