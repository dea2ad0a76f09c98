/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/context.h"

#include "base/clock.h"
#include "engine/transfer/capture_gate.h"
#include "engine/transfer/setup.h"

#include <pthread.h>

/*
 * A call that ends a context waits at most this long for copies in the context. A correct program
 * causes no such wait, because CUDA forbids destroying a context that is in use.
 */
#define AWAIT_CALLS_MS 1000

enum {
    context_free,
    context_live,
    context_leaving,  /* a call that may end the context is running */
    context_dead,     /* the context has ended; the last call that leaves it releases the entry */
    context_dropping, /* one thread is releasing the entry */
};

static struct gf_context contexts[GF_CONTEXTS];
/*
 * Entries from this index on were never used. Loops over entries end at this index, so that the
 * pages of unused entries stay absent.
 */
static _Atomic unsigned used;
/* Guards the description of an entry while it is filled in. No CUDA call is made under it. */
static pthread_mutex_t fill_lock = PTHREAD_MUTEX_INITIALIZER;
/*
 * first_node: the node of the first context; GF_NODES_MAX before the first context. nodes_differ:
 * whether a later context had another node.
 */
static int first_node = GF_NODES_MAX; /* guarded by fill_lock */
static _Atomic bool nodes_differ;
static void (*const *end_functions)(struct gf_context *context);

void gf_context_on_end(void (*const ends[])(struct gf_context *context))
{
    end_functions = ends;
}

static unsigned context_state(const struct gf_context *context)
{
    return gf_load_seq_cst(&context->state);
}

static bool change_state(struct gf_context *context, unsigned from, unsigned to)
{
    return gf_cas_seq_cst(&context->state, &from, to);
}

static void release_context(struct gf_context *context)
{
    for (size_t i = 0; end_functions && end_functions[i]; i++)
        end_functions[i](context);
    gf_store_seq_cst(&context->id, 0);
    gf_store_seq_cst(&context->state, context_free);
}

/*
 * Releases the entry if its context has ended and no call is inside. After a thread has read a
 * count of 0, it may be preempted, and the entry may then get another context. So the thread first
 * sets the state context_dropping, and then reads the count again. Another call that leaves at that
 * time finds this state, and leaves the release to this thread.
 */
static void release_if_last(struct gf_context *context)
{
    while (gf_load_seq_cst(&context->calls) == 0 &&
           change_state(context, context_dead, context_dropping)) {
        if (gf_load_seq_cst(&context->calls) == 0) {
            release_context(context);
            return;
        }
        change_state(context, context_dropping, context_dead);
    }
}

void gf_context_leave(struct gf_context *context)
{
    if (gf_sub_seq_cst(&context->calls, 1) == 1)
        release_if_last(context);
}

static bool try_enter(struct gf_context *context, unsigned long long id)
{
    gf_add_seq_cst(&context->calls, 1);
    if (context_state(context) == context_live && gf_load_acquire(&context->id) == id)
        return true;
    gf_context_leave(context);
    return false;
}

static unsigned count_used(void)
{
    return gf_load_acquire(&used);
}

/*
 * Whether there is an entry for this id. Enters the entry and sets *ret to it, or to NULL if the
 * entry could not be entered.
 */
static bool find_context(unsigned long long id, struct gf_context **ret)
{
    for (unsigned i = 0; i < count_used(); i++)
        if (gf_load_acquire(&contexts[i].id) == id) {
            *ret = try_enter(&contexts[i], id) ? &contexts[i] : NULL;
            return true;
        }
    return false;
}

/* Creating an entry. */

static bool has_attribute(CUdevice device, CUdevice_attribute attribute)
{
    int value = 0;
    return gf_setup.cuda->cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS && value;
}

/*
 * Whether the device's primary context is active. After a release it stays active while there are
 * other references to it.
 */
static bool is_active(CUdevice device)
{
    unsigned flags;
    int active = 0;
    return gf_setup.cuda->cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS &&
           active;
}

/*
 * Whether the context is its device's primary context. The driver has no query for that, so this
 * function takes a reference to the active primary context, compares the two, and releases the
 * reference. If the program releases its own last reference before this function takes one, the
 * driver creates a new primary context, perhaps with the same handle, but with another id. So the
 * ids are compared, too.
 */
static bool is_primary(CUcontext handle, unsigned long long id, CUdevice device)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    CUcontext primary = NULL;
    unsigned long long primary_id = 0;

    if (!is_active(device) || cuda->cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS)
        return false;
    const bool same = primary == handle && cuda->cuCtxGetId(primary, &primary_id) == CUDA_SUCCESS &&
                      primary_id == id;
    if (cuda->cuDevicePrimaryCtxRelease_v2(device) != CUDA_SUCCESS)
        cuda->cuDevicePrimaryCtxRelease_v2(device);
    return same;
}

static bool query_green(const struct gf_cuda *cuda)
{
    CUcontext context = NULL;
    CUgreenCtx green = NULL;
    CUresult result = CUDA_SUCCESS;

    if (cuda->cuStreamGetCtx_v2)
        result = cuda->cuStreamGetCtx_v2(CU_STREAM_LEGACY, &context, &green);
    else if (cuda->cuStreamGetGreenCtx) /* CUDA 12.4 */
        result = cuda->cuStreamGetGreenCtx(CU_STREAM_LEGACY, &green);
    return result != CUDA_SUCCESS || green;
}

/*
 * A green context gets no entry. Memory that is allocated or registered while it is current may
 * belong to the primary context of its device, and outlive the green context. The queries name the
 * legacy stream, because that belongs to the current context. If a query fails, the context counts
 * as green. During a capture on a blocking stream only cuStreamIsCapturing is called, because any
 * other call on the legacy stream would end that capture. No capture begins during the query.
 */
static bool is_green(void)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    unsigned none_seen = gf_captures_begun() - 1; /* so that gf_issue_enter queries the state */

    if (!cuda->cuStreamIsCapturing)
        return query_green(cuda);
    if (!gf_issue_enter(CU_STREAM_LEGACY, &none_seen))
        return true;
    const bool green = query_green(cuda);
    gf_issue_leave();
    return green;
}

static bool describe_device(struct gf_context *ret)
{
    if (gf_setup.cuda->cuCtxGetDevice(&ret->device) != CUDA_SUCCESS)
        return false;
    ret->shares_pages =
        has_attribute(ret->device,
                      CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) ||
        has_attribute(ret->device, CU_DEVICE_ATTRIBUTE_INTEGRATED);
    ret->faults_pages = has_attribute(ret->device, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
    return true;
}

static bool describe_context(CUcontext handle, unsigned long long id, struct gf_context *ret)
{
    ret->handle = handle;
    if (is_green() || !describe_device(ret))
        return false;
    ret->primary = is_primary(handle, id, ret->device);
    ret->node = gf_setup.device_node(ret->device, &ret->cpus);
    ret->pool = gf_pool_get(ret->node, &ret->cpus,
                            &(struct gf_pool_size){.threads = gf_setup.options->stage_threads,
                                                   .quota = gf_setup.cpu_quota,
                                                   .rank_cpus = gf_setup.rank_cpus,
                                                   .priority = gf_setup.options->helper_priority});
    return ret->pool != NULL;
}

static struct gf_context *find_free(void)
{
    for (unsigned i = 0; i < GF_CONTEXTS; i++)
        if (context_state(&contexts[i]) == context_free && gf_load_seq_cst(&contexts[i].calls) == 0)
            return &contexts[i];
    return NULL;
}

/* Fills a free entry, and enters its context for the caller. The caller holds fill_lock. */
static void fill_entry(struct gf_context *entry, const struct gf_context *made,
                       unsigned long long id)
{
    memcpy(entry, made, offsetof(struct gf_context, ring));
    if (first_node == GF_NODES_MAX)
        first_node = made->node;
    else if (made->node != first_node)
        gf_store_relaxed(&nodes_differ, true);
    gf_store_relaxed(&entry->ring, NULL);
    /*
     * The count is incremented, never set, because a thread that has read an old id of this entry
     * may be entering and leaving it.
     */
    gf_add_seq_cst(&entry->calls, 1);
    gf_store_seq_cst(&used, gf_max(gf_load_relaxed(&used), (unsigned)(entry - contexts) + 1));
    gf_store_seq_cst(&entry->state, context_live);
    gf_store_seq_cst(&entry->id, id);
}

/*
 * Whether a call that may end contexts concerns the context of this entry. The call names a context
 * by `handle`, or the primary context of *device, which may be GF_ANY_DEVICE. If the context is
 * concerned, sets *device to the context's device.
 */
static bool is_concerned(const struct gf_context *context, CUcontext handle, CUdevice *device)
{
    if (gf_load_acquire(&context->id) == 0)
        return false;
    pthread_mutex_lock(&fill_lock); /* so that no other context gets this entry during the check */
    const bool concerned =
        handle ? context->handle == handle
               : context->primary && (*device == context->device || *device == GF_ANY_DEVICE);
    if (concerned)
        *device = context->device;
    pthread_mutex_unlock(&fill_lock);
    return concerned;
}

/*
 * Ends older entries for primary contexts of the same device. A device has only one primary
 * context. So if an older entry is still live, its context has ended, but no hook has noticed.
 */
static void end_older_primary(const struct gf_context *newer)
{
    for (unsigned i = 0; newer->primary && i < count_used(); i++) {
        struct gf_context *context = &contexts[i];
        CUdevice device = newer->device;
        if (context != newer && is_concerned(context, NULL, &device) &&
            change_state(context, context_live, context_dead))
            release_if_last(context);
    }
}

static struct gf_context *make_context(CUcontext handle, unsigned long long id)
{
    struct gf_context made = {0}, *entry = NULL;

    if (!describe_context(handle, id, &made))
        return NULL;
    pthread_mutex_lock(&fill_lock);
    if (!find_context(id, &entry) && (entry = find_free()))
        fill_entry(entry, &made, id);
    pthread_mutex_unlock(&fill_lock);
    if (entry)
        end_older_primary(entry);
    return entry;
}

bool gf_context_is_possible(const struct gf_cuda *cuda)
{
    return cuda->cuCtxGetCurrent && cuda->cuCtxGetId && cuda->cuCtxGetDevice &&
           cuda->cuDeviceGetAttribute && cuda->cuDevicePrimaryCtxGetState &&
           cuda->cuDevicePrimaryCtxRetain && cuda->cuDevicePrimaryCtxRelease_v2;
}

static bool get_current(CUcontext *ret_handle, unsigned long long *ret_id)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    return gf_context_is_possible(cuda) && cuda->cuCtxGetCurrent(ret_handle) == CUDA_SUCCESS &&
           *ret_handle && cuda->cuCtxGetId(*ret_handle, ret_id) == CUDA_SUCCESS && *ret_id;
}

struct gf_context *gf_context_enter(void)
{
    struct gf_context *context;
    CUcontext handle = NULL;
    unsigned long long id = 0;

    if (!get_current(&handle, &id))
        return NULL;
    return find_context(id, &context) ? context : make_context(handle, id);
}

bool gf_context_nodes_differ(void)
{
    return gf_load_relaxed(&nodes_differ);
}

/* Contexts that end. */

static void await_calls(const struct gf_context *context)
{
    for (unsigned i = 0; i < AWAIT_CALLS_MS && gf_load_seq_cst(&context->calls); i++)
        gf_sleep_ns(1000000);
}

/*
 * A program may release a primary context while other threads copy in it. The driver waits for
 * these copies only at the last release. So this function waits for copies only if the program's
 * call names the context by its handle.
 */
void gf_context_leaving(CUcontext handle, CUdevice device)
{
    for (unsigned i = 0; i < count_used(); i++) {
        CUdevice own = device;
        if (is_concerned(&contexts[i], handle, &own) &&
            change_state(&contexts[i], context_live, context_leaving) && handle)
            await_calls(&contexts[i]);
    }
}

/*
 * Whether the context is still the calling thread's current one. cuCtxDetach ends the current
 * context only if no other thread has attached to it.
 */
static bool is_current(const struct gf_context *context, CUcontext handle)
{
    const struct gf_cuda *cuda = gf_setup.cuda;
    CUcontext current = NULL;
    unsigned long long id = 0;
    return cuda->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == handle &&
           cuda->cuCtxGetId(current, &id) == CUDA_SUCCESS && id == gf_load_acquire(&context->id);
}

static bool context_has_ended(const struct gf_context *context, CUcontext handle, CUdevice device,
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
        CUdevice own = device;
        if (!is_concerned(context, handle, &own))
            continue;
        /*
         * The entry of a context that ended is in the state context_leaving, except in two cases,
         * in which it is in the state context_live. First, another thread's release of the same
         * primary context may have returned earlier and found the context active. Second, another
         * thread may have created a new context with the handle of the context that ended. That new
         * context stays.
         */
        if (!context_has_ended(context, handle, own, result))
            change_state(context, context_leaving, context_live);
        else if (change_state(context, context_leaving, context_dead) ||
                 (!handle && change_state(context, context_live, context_dead)))
            release_if_last(context);
    }
}

struct gf_context *gf_context_next(struct gf_context *before)
{
    if (before)
        gf_context_leave(before);
    for (unsigned i = before ? (unsigned)(before - contexts) + 1 : 0; i < count_used(); i++) {
        const unsigned long long id = gf_load_acquire(&contexts[i].id);
        if (id && try_enter(&contexts[i], id))
            return &contexts[i];
    }
    return NULL;
}
