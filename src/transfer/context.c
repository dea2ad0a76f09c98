/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/context.h"

#include "transfer/pinned.h"
#include "transfer/ring.h"
#include "transfer/setup.h"

#include <pthread.h>
#include <time.h>

/* What a running copy of a legal program needs to end, and more: destroying a context in use is not legal. */
#define PATIENCE_MS 1000

enum {
    state_free,
    state_live,
    state_leaving,
    state_dead,     /* the last one out drops what belonged to it */
    state_dropping, /* one thread is at it */
};

struct gf_transfer_setup gf_setup;

static struct gf_context contexts[GF_CONTEXTS];
static unsigned used; /* atomic: entries from here on were never anybody's: pages that are not there */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER; /* of entries; no call is made under it */

static unsigned state_of(const struct gf_context *context)
{
    return __atomic_load_n(&context->state, __ATOMIC_SEQ_CST);
}

static bool change(struct gf_context *context, unsigned from, unsigned to)
{
    return __atomic_compare_exchange_n(&context->state, &from, to, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* What the owners kept is of no use any more: registrations and events went with the context. */
static void drop(struct gf_context *context)
{
    gf_pinned_forget(context->id);
    gf_ring_drop(context);
    __atomic_store_n(&context->id, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&context->state, state_free, __ATOMIC_SEQ_CST);
}

/*
 * Who has seen nobody inside may have slept since: the entry may be another context's by now. So
 * the entry is closed first, and looked at again; who leaves meanwhile leaves it to this thread.
 */
static void drop_if_last(struct gf_context *context)
{
    while (__atomic_load_n(&context->running, __ATOMIC_SEQ_CST) == 0 &&
           change(context, state_dead, state_dropping)) {
        if (__atomic_load_n(&context->running, __ATOMIC_SEQ_CST) == 0) {
            drop(context);
            return;
        }
        change(context, state_dropping, state_dead);
    }
}

void gf_context_leave(struct gf_context *context)
{
    if (__atomic_sub_fetch(&context->running, 1, __ATOMIC_SEQ_CST) == 0)
        drop_if_last(context);
}

static bool enter(struct gf_context *context, unsigned long long id)
{
    __atomic_fetch_add(&context->running, 1, __ATOMIC_SEQ_CST);
    if (state_of(context) == state_live &&
        __atomic_load_n(&context->id, __ATOMIC_ACQUIRE) == id)
        return true;
    gf_context_leave(context);
    return false;
}

static unsigned count_used(void)
{
    return __atomic_load_n(&used, __ATOMIC_ACQUIRE);
}

/* Whether it is there; *ret is then NULL if it may not be entered. */
static bool find(unsigned long long id, struct gf_context **ret)
{
    for (unsigned i = 0; i < count_used(); i++)
        if (__atomic_load_n(&contexts[i].id, __ATOMIC_ACQUIRE) == id) {
            *ret = enter(&contexts[i], id) ? &contexts[i] : NULL;
            return true;
        }
    return false;
}

static bool has_attribute(CUdevice device, CUdevice_attribute attribute)
{
    int value = 0;
    return gf_setup.cuda->cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS && value;
}

/* The driver does not say it; the primary context is alive, so that a reference more is not seen. */
static bool is_primary(CUcontext handle, CUdevice device)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    CUcontext primary = NULL;
    unsigned flags;
    int active = 0;

    if (cuda->cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active ||
        cuda->cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS)
        return false;
    if (cuda->cuDevicePrimaryCtxRelease_v2(device) != CUDA_SUCCESS)
        cuda->cuDevicePrimaryCtxRelease_v2(device);
    return primary == handle;
}

/*
 * A green context has no entry: what is allocated or registered while it is current may be its device's
 * primary context's, and outlive it. The legacy stream is the current context's. In doubt it is one, and
 * beside a capture on a blocking stream it is not asked for: that, other calls on the legacy stream end.
 */
static bool is_green(void)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    CUcontext context = NULL;
    CUgreenCtx green = NULL;
    CUstreamCaptureStatus status;
    CUresult result = CUDA_SUCCESS;

    if (cuda->cuStreamIsCapturing && cuda->cuStreamIsCapturing(CU_STREAM_LEGACY, &status) != CUDA_SUCCESS)
        return true;
    if (cuda->cuStreamGetCtx_v2)
        result = cuda->cuStreamGetCtx_v2(CU_STREAM_LEGACY, &context, &green);
    else if (cuda->cuStreamGetGreenCtx) /* CUDA 12.4 */
        result = cuda->cuStreamGetGreenCtx(CU_STREAM_LEGACY, &green);
    return result != CUDA_SUCCESS || green;
}

/* What is the device's. */
static bool ask_device(struct gf_context *ret)
{
    if (gf_setup.cuda->cuCtxGetDevice(&ret->device) != CUDA_SUCCESS)
        return false;
    ret->shares_pages =
        has_attribute(ret->device,
                      CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) ||
        has_attribute(ret->device, CU_DEVICE_ATTRIBUTE_INTEGRATED);
    return true;
}

static bool describe(CUcontext handle, unsigned long long id, struct gf_context *ret)
{
    *ret = (struct gf_context){.id = id, .handle = handle};
    if (is_green() || !ask_device(ret))
        return false;
    ret->primary = is_primary(handle, ret->device);
    ret->node = gf_setup.device_node(ret->device, &ret->cpus);
    ret->pool = gf_pool_get(ret->node, &ret->cpus, gf_setup.options->stage_threads,
                            gf_setup.cpu_quota);
    return ret->pool != NULL;
}

static struct gf_context *free_entry(void)
{
    for (unsigned i = 0; i < GF_CONTEXTS; i++)
        if (state_of(&contexts[i]) == state_free &&
            __atomic_load_n(&contexts[i].running, __ATOMIC_SEQ_CST) == 0)
            return &contexts[i];
    return NULL;
}

static struct gf_context *make(CUcontext handle, unsigned long long id)
{
    struct gf_context made, *at = NULL;

    if (!describe(handle, id, &made))
        return NULL;
    pthread_mutex_lock(&making);
    if (!find(id, &at) && (at = free_entry())) {
        at->handle = made.handle;
        at->device = made.device;
        at->primary = made.primary;
        at->shares_pages = made.shares_pages;
        at->node = made.node;
        at->cpus = made.cpus;
        at->pool = made.pool;
        at->ring = NULL;
        /* Somebody who read an old id may be passing through: running is counted, never set. */
        __atomic_fetch_add(&at->running, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&used, gf_max(used, (unsigned)(at - contexts) + 1), __ATOMIC_SEQ_CST);
        __atomic_store_n(&at->state, state_live, __ATOMIC_SEQ_CST);
        __atomic_store_n(&at->id, id, __ATOMIC_SEQ_CST);
    }
    pthread_mutex_unlock(&making);
    return at;
}

static bool can_ask(const struct gf_cuda *cuda)
{
    return cuda->cuCtxGetCurrent && cuda->cuCtxGetId && cuda->cuCtxGetDevice &&
           cuda->cuDeviceGetAttribute && cuda->cuDevicePrimaryCtxGetState &&
           cuda->cuDevicePrimaryCtxRetain && cuda->cuDevicePrimaryCtxRelease_v2;
}

static bool get_current(CUcontext *ret_handle, unsigned long long *ret_id)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    return can_ask(cuda) && cuda->cuCtxGetCurrent(ret_handle) == CUDA_SUCCESS && *ret_handle &&
           cuda->cuCtxGetId(*ret_handle, ret_id) == CUDA_SUCCESS && *ret_id;
}

struct gf_context *gf_context_enter(void)
{
    struct gf_context *context;
    CUcontext handle = NULL;
    unsigned long long id = 0;

    if (!get_current(&handle, &id))
        return NULL;
    return find(id, &context) ? context : make(handle, id);
}

/* Ends. */

/* *device becomes the context's. */
static bool concerns(const struct gf_context *context, CUcontext handle, CUdevice *device)
{
    if (__atomic_load_n(&context->id, __ATOMIC_ACQUIRE) == 0)
        return false;
    pthread_mutex_lock(&making); /* the entry may be about to be another context's */
    const bool does = handle ? context->handle == handle
                             : context->primary &&
                                   (*device == context->device || *device == GF_ANY_DEVICE);
    if (does)
        *device = context->device;
    pthread_mutex_unlock(&making);
    return does;
}

static void await_running(const struct gf_context *context)
{
    static const struct timespec ms = {.tv_nsec = 1000000};
    for (unsigned i = 0; i < PATIENCE_MS; i++) {
        if (__atomic_load_n(&context->running, __ATOMIC_SEQ_CST) == 0)
            return;
        clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL);
    }
}

/*
 * A release of a primary context is legal while others copy, and waits for nobody unless it is the
 * last: neither do we, then.
 */
void gf_context_leaving(CUcontext handle, CUdevice device)
{
    for (unsigned i = 0; i < count_used(); i++) {
        CUdevice of = device;
        if (concerns(&contexts[i], handle, &of) &&
            change(&contexts[i], state_live, state_leaving) && handle)
            await_running(&contexts[i]);
    }
}

/* cuCtxDetach ends the calling thread's context only if nobody has attached to it. */
static bool is_current(const struct gf_context *context, CUcontext handle)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    CUcontext current = NULL;
    unsigned long long id = 0;
    return cuda->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == handle &&
           cuda->cuCtxGetId(current, &id) == CUDA_SUCCESS &&
           id == __atomic_load_n(&context->id, __ATOMIC_ACQUIRE);
}

/* A primary context that was released may live on. */
static bool is_active(CUdevice device)
{
    unsigned flags;
    int active = 0;
    return gf_setup.cuda->cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS &&
           active;
}

static bool is_gone(const struct gf_context *context, CUcontext handle, CUdevice device,
                    CUresult result)
{
    if (result != CUDA_SUCCESS)
        return false;
    return handle ? !is_current(context, handle) : !is_active(device);
}

void gf_context_left(CUcontext handle, CUdevice device, CUresult result)
{
    for (unsigned i = 0; i < count_used(); i++) {
        struct gf_context *context = &contexts[i];
        CUdevice of = device;
        if (!concerns(context, handle, &of))
            continue;
        /*
         * Live: another thread's release came back first, and found it alive; or, of a handle, it is a new
         * one, of another thread's, that was given the handle of what has just ended.
         */
        if (!is_gone(context, handle, of, result))
            change(context, state_leaving, state_live);
        else if (change(context, state_leaving, state_dead) ||
                 (!handle && change(context, state_live, state_dead)))
            drop_if_last(context);
    }
}

void gf_context_each(void (*see)(void *closure, struct gf_context *context), void *closure)
{
    for (unsigned i = 0; i < count_used(); i++) {
        const unsigned long long id = __atomic_load_n(&contexts[i].id, __ATOMIC_ACQUIRE);
        if (id && enter(&contexts[i], id)) {
            see(closure, &contexts[i]);
            gf_context_leave(&contexts[i]);
        }
    }
}
