/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pinned/pinned_buffer.h"

#include "base/atomic.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/pinned/kept_mapping.h"
#include "engine/transfer/pinned/pinned_mapping.h"
#include "engine/transfer/tuning.h"

#include <pthread.h>
#include <stdlib.h>

#define SLOTS 256
#define SIZES (GF_TUNE_PIN_KEPT_MOST / GF_HUGE_PAGE)

/*
 * A direct-mapped table of the driver's blocks; a collision overwrites. If threads use a slot at the
 * same time, at worst another size counts as freed.
 */
static struct {
    _Atomic uintptr_t at;
    _Atomic unsigned size;
} blocks[SLOTS];
static _Atomic uint32_t freed; /* a bit for each size */

_Static_assert(SIZES <= 32, "a bit for each size");

/* The number of huge pages minus 1. */
static unsigned size_of(size_t bytes)
{
    return (unsigned)((bytes - 1) / GF_HUGE_PAGE);
}

bool gf_recycled_covers(size_t bytes)
{
    return bytes > GF_TUNE_PIN_KEPT_ABOVE && bytes <= GF_TUNE_PIN_KEPT_MOST;
}

static size_t slot_of(const void *at)
{
    return (size_t)((uintptr_t)at * UINT64_C(0x9e3779b97f4a7c15) >> 56);
}

void gf_recycled_allocated(const void *at, size_t bytes)
{
    const size_t slot = slot_of(at);
    if (!gf_recycled_covers(bytes))
        return;
    gf_store_relaxed(&blocks[slot].size, size_of(bytes));
    gf_store_relaxed(&blocks[slot].at, (uintptr_t)at);
}

void gf_recycled_freed(const void *at)
{
    const size_t slot = slot_of(at);
    uintptr_t wanted = (uintptr_t)at;
    const unsigned size = gf_load_relaxed(&blocks[slot].size);
    if (at && gf_cas_relaxed(&blocks[slot].at, &wanted, 0))
        atomic_fetch_or_explicit(&freed, UINT32_C(1) << size, memory_order_relaxed);
}

void gf_recycled_note(size_t bytes)
{
    if (gf_recycled_covers(bytes))
        atomic_fetch_or_explicit(&freed, UINT32_C(1) << size_of(bytes), memory_order_relaxed);
}

bool gf_recycled(size_t bytes)
{
    return gf_recycled_covers(bytes) && (gf_load_relaxed(&freed) >> size_of(bytes) & 1);
}

#define BUCKETS 256

struct buffer {
    struct buffer *next;
    struct gf_pinned_mapping mapping;
    size_t bytes;   /* as requested */
    unsigned flags; /* as requested */
    uint64_t context;
    bool claimed;  /* a call is freeing it, so other frees do not find it */
    bool stuck;    /* the program has freed it, but it stays registered */
    bool orphaned; /* its context ended while it was claimed */
};

/*
 * Guards the table and the buffers in it. An innermost lock: neither CUDA nor malloc is called
 * under it.
 */
static pthread_mutex_t buffers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *buffers[BUCKETS];

static struct buffer **buffer_bucket(const void *at)
{
    return &buffers[((uintptr_t)at >> 21) * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}

static void insert_buffer(struct buffer *buffer)
{
    struct buffer **head = buffer_bucket(buffer->mapping.at);
    pthread_mutex_lock(&buffers_lock);
    buffer->next = *head;
    *head = buffer;
    pthread_mutex_unlock(&buffers_lock);
}

/*
 * Claims the buffer that begins at `at`: only the caller may free it from now on. NULL: no such
 * buffer.
 */
static struct buffer *claim_buffer(const void *at)
{
    pthread_mutex_lock(&buffers_lock);
    struct buffer *buffer = *buffer_bucket(at);
    while (buffer && (buffer->mapping.at != at || buffer->claimed))
        buffer = buffer->next;
    if (buffer)
        buffer->claimed = true;
    pthread_mutex_unlock(&buffers_lock);
    return buffer;
}

/* Ends a claim. False: the context has ended, and the caller must drop the buffer. */
static bool unclaim_buffer(struct buffer *buffer)
{
    pthread_mutex_lock(&buffers_lock);
    const bool alive = !buffer->orphaned;
    buffer->claimed = !alive;
    pthread_mutex_unlock(&buffers_lock);
    return alive;
}

/* Removes a claimed buffer from the table. */
static void remove_buffer(struct buffer *buffer)
{
    pthread_mutex_lock(&buffers_lock);
    struct buffer **at = buffer_bucket(buffer->mapping.at);
    while (*at != buffer)
        at = &(*at)->next;
    *at = buffer->next;
    pthread_mutex_unlock(&buffers_lock);
}

/* Unmaps a claimed buffer. */
static void drop_buffer(struct buffer *buffer)
{
    remove_buffer(buffer);
    gf_pinned_mapping_unmap(&buffer->mapping);
    free(buffer);
}

/*
 * The same for a buffer that is no longer registered, because the driver has waited for the device.
 * Its mapping may be kept. One that is freed for the first time in this process is not.
 */
static void release_buffer(struct buffer *buffer, gf_kept_room_fn *room)
{
    const bool again = gf_recycled(buffer->bytes);
    remove_buffer(buffer);
    gf_recycled_note(buffer->bytes);
    if (!again || !room || !gf_kept_mapping_put(&buffer->mapping, room()))
        gf_pinned_mapping_unmap(&buffer->mapping);
    free(buffer);
}

/*
 * Whether the result is success, or an error that the program caused: by its work in the context,
 * by a capture, or by a call in a host function. After such an error, large allocations are still
 * served.
 */
static bool is_expected(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return true;
    if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED ||
        result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
        return false;
    return (result >= CUDA_ERROR_ILLEGAL_ADDRESS && result <= CUDA_ERROR_NOT_PERMITTED) ||
           (result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_TIMEOUT) ||
           result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_NOT_INITIALIZED ||
           result == CUDA_ERROR_DEINITIALIZED;
}

/* A buffer with a mapping. NULL on failure. */
static struct buffer *make_buffer(const struct gf_pinned_buffer_request *request, size_t bytes,
                                  struct gf_fault *ret_fault)
{
    struct buffer *buffer = calloc(1, sizeof(*buffer));

    *ret_fault = (struct gf_fault){0};
    if (!buffer) {
        if (request->kept)
            gf_pinned_mapping_unmap(request->kept);
        return NULL;
    }
    if (request->kept) {
        buffer->mapping = *request->kept;
        return buffer;
    }
    const uint64_t forks = gf_recycled_covers(bytes) ? gf_kept_mapping_forks() : 0;
    ret_fault->error = -gf_pinned_mapping_make(request->pool, bytes, request->policy,
                                               &buffer->mapping, &ret_fault->call);
    if (ret_fault->error) {
        free(buffer);
        return NULL;
    }
    buffer->mapping.forks = forks;
    return buffer;
}

bool gf_pinned_buffer_alloc(const struct gf_pinned_buffer_request *request, void **pp, size_t bytes,
                            unsigned flags, CUresult *ret_result, struct gf_fault *ret_fault)
{
    struct buffer *buffer = make_buffer(request, bytes, ret_fault);

    if (!buffer)
        return false;
    buffer->bytes = bytes;
    buffer->context = request->context;
    buffer->flags = request->flags;
    /*
     * Flags of cuMemHostAlloc and cuMemHostRegister have the same values, and cuMemHostGetFlags
     * reports them alike.
     */
    const CUresult result = request->cuda->cuMemHostRegister_v2(buffer->mapping.at, bytes, flags);
    /* What the program did to its earlier buffer may be the cause if a kept mapping is refused. */
    *ret_fault =
        (struct gf_fault){.call = is_expected(result) || request->kept ? NULL : "cuMemHostRegister",
                          .result = result};
    *ret_result = result;
    if (result == CUDA_SUCCESS) {
        insert_buffer(buffer);
        *pp = buffer->mapping.at;
        return true;
    }
    gf_pinned_mapping_unmap(&buffer->mapping);
    free(buffer);
    /*
     * Because of a capture, the driver refused the call and invalidated the capture. The program's
     * own allocation would have had the same effect.
     */
    return result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* Keeps a claimed buffer that could not be unregistered, until its context ends. */
static void keep_stuck(struct buffer *buffer)
{
    pthread_mutex_lock(&buffers_lock);
    buffer->stuck = true;
    const bool orphaned = buffer->orphaned;
    pthread_mutex_unlock(&buffers_lock);
    if (orphaned)
        drop_buffer(buffer);
}

/*
 * Called if the current context does not know the registration. Unregisters in the context that
 * owns the registration, because the memory must not be unmapped while a device may still write to
 * it.
 */
static CUresult unregister_in_owner(const struct gf_cuda *cuda, void *p)
{
    CUcontext owner = NULL, popped;
    if (!cuda->cuPointerGetAttribute || !cuda->cuCtxPushCurrent_v2 || !cuda->cuCtxPopCurrent_v2 ||
        cuda->cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, (uintptr_t)p) !=
            CUDA_SUCCESS)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED; /* no context has registered it */
    CUresult result = cuda->cuCtxPushCurrent_v2(owner);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuda->cuMemHostUnregister(p);
    cuda->cuCtxPopCurrent_v2(&popped);
    return result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED ? CUDA_ERROR_UNKNOWN : result;
}

/* Unregisters a buffer after a wait for the device, as cuMemFreeHost does. */
static CUresult unregister_buffer(const struct gf_cuda *cuda, void *p)
{
    const CUresult result = cuda->cuMemHostUnregister(p);
    if (result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
        return unregister_in_owner(cuda, p);
    return is_expected(result) ? result : cuda->cuMemHostUnregister(p);
}

bool gf_pinned_buffer_free(const struct gf_cuda *cuda, void *p, gf_kept_room_fn *room,
                           CUresult *ret_result, struct gf_fault *ret_fault)
{
    struct buffer *buffer = claim_buffer(p);

    *ret_fault = (struct gf_fault){0};
    if (!buffer)
        return false;
    CUresult result = unregister_buffer(cuda, p);
    if (result == CUDA_SUCCESS) {
        release_buffer(buffer, room);
    } else if (result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) {
        /*
         * The buffer's context ended, and no hook noticed. A buffer of the driver would be gone,
         * too.
         */
        drop_buffer(buffer);
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (!is_expected(result)) {
        /* cuMemFreeHost would have waited for the program's work and returned its error. */
        *ret_fault = (struct gf_fault){.call = "cuMemHostUnregister", .result = result};
        keep_stuck(buffer);
        result = cuda->cuCtxSynchronize ? cuda->cuCtxSynchronize() : CUDA_SUCCESS;
    } else if (!unclaim_buffer(buffer)) {
        drop_buffer(buffer);
    }
    *ret_result = result;
    return true;
}

bool gf_pinned_buffer_unregister(const struct gf_cuda *cuda, void *p, CUresult *ret_result)
{
    pthread_mutex_lock(&buffers_lock);
    const struct buffer *buffer = *buffer_bucket(p);
    while (buffer && (buffer->mapping.at != p || buffer->stuck))
        buffer = buffer->next;
    const size_t bytes = buffer ? buffer->bytes : 0;
    pthread_mutex_unlock(&buffers_lock);
    if (!bytes)
        return false;
    /*
     * For an address inside the buffer the driver makes all its checks, and then refuses the call
     * as for its own memory.
     */
    *ret_result = cuda->cuMemHostUnregister((char *)p + bytes / 2);
    return true;
}

bool gf_pinned_buffer_meets(const void *p, size_t bytes)
{
    const uintptr_t start = (uintptr_t)p;
    bool meets = false;
    pthread_mutex_lock(&buffers_lock);
    for (size_t i = 0; i < BUCKETS && !meets; i++)
        for (const struct buffer *b = buffers[i]; b && !meets; b = b->next)
            meets = start < (uintptr_t)b->mapping.at + b->mapping.bytes &&
                    (uintptr_t)b->mapping.at < start + bytes;
    pthread_mutex_unlock(&buffers_lock);
    return meets;
}

/* The buffer that contains p. The lock is held. */
static const struct buffer *find_holder(const void *p)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct buffer *b = buffers[i]; b; b = b->next)
            if ((uintptr_t)p - (uintptr_t)b->mapping.at < b->bytes)
                return b;
    return NULL;
}

bool gf_pinned_buffer_flags(const void *p, unsigned *flags)
{
    pthread_mutex_lock(&buffers_lock);
    const struct buffer *buffer = find_holder(p);
    if (buffer && !(buffer->flags & CU_MEMHOSTALLOC_PORTABLE))
        *flags &= ~(unsigned)CU_MEMHOSTALLOC_PORTABLE;
    pthread_mutex_unlock(&buffers_lock);
    return buffer;
}

void gf_pinned_buffer_mapping(const void *p, size_t *bytes)
{
    pthread_mutex_lock(&buffers_lock);
    const struct buffer *buffer = find_holder(p);
    if (buffer)
        *bytes = buffer->mapping.mapped;
    pthread_mutex_unlock(&buffers_lock);
}

void gf_pinned_buffer_forget(uint64_t context)
{
    struct buffer *gone = NULL;
    pthread_mutex_lock(&buffers_lock);
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct buffer **at = &buffers[i], *b; (b = *at);) {
            const bool ends = b->context == context;
            b->orphaned |= ends;
            if (!ends || (b->claimed && !b->stuck)) {
                at = &b->next;
                continue;
            }
            *at = b->next;
            b->next = gone;
            gone = b;
        }
    pthread_mutex_unlock(&buffers_lock);
    while (gone) {
        struct buffer *next = gone->next;
        gf_pinned_mapping_unmap(&gone->mapping);
        free(gone);
        gone = next;
    }
}

void gf_pinned_buffer_held(uint64_t ret[GF_NODE_BYTES_COUNT])
{
    for (size_t i = 0; i < GF_NODE_BYTES_COUNT; i++)
        ret[i] = 0;
    if (!gf_timed_lock(&buffers_lock))
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct buffer *b = buffers[i]; b; b = b->next)
            gf_node_bytes_add(ret, b->mapping.node, b->bytes);
    pthread_mutex_unlock(&buffers_lock);
}
