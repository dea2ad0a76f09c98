/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/large.h"

#include "transfer/briefly.h"
#include "transfer/extent.h"
#include "transfer/plant.h"

#include <pthread.h>
#include <stdlib.h>

#define BUCKETS 256

struct buffer {
    struct buffer *next;
    struct gf_extent extent;
    size_t bytes; /* that the program asked for */
    unsigned flags; /* likewise */
    uint64_t context;
    bool leaving;  /* somebody is freeing it: others find nothing */
    bool lost;     /* somebody has, but it stays registered */
    bool orphaned; /* meanwhile its context ended */
};

static struct {
    pthread_mutex_t lock;
    struct buffer *bucket[BUCKETS];
} map = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct buffer **bucket_of(const void *at)
{
    return &map.bucket[((uintptr_t)at >> 21) * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}

static void put(struct buffer *buffer)
{
    struct buffer **head = bucket_of(buffer->extent.at);
    pthread_mutex_lock(&map.lock);
    buffer->next = *head;
    *head = buffer;
    pthread_mutex_unlock(&map.lock);
}

/* The caller alone may free it from now on. */
static struct buffer *claim(const void *at)
{
    pthread_mutex_lock(&map.lock);
    struct buffer *buffer = *bucket_of(at);
    while (buffer && (buffer->extent.at != at || buffer->leaving))
        buffer = buffer->next;
    if (buffer)
        buffer->leaving = true;
    pthread_mutex_unlock(&map.lock);
    return buffer;
}

/* Puts a claimed one back; false: its context has ended, and it must go. */
static bool unclaim(struct buffer *buffer)
{
    pthread_mutex_lock(&map.lock);
    const bool alive = !buffer->orphaned;
    buffer->leaving = !alive;
    pthread_mutex_unlock(&map.lock);
    return alive;
}

static void drop(struct buffer *buffer)
{
    pthread_mutex_lock(&map.lock);
    struct buffer **at = bucket_of(buffer->extent.at);
    while (*at != buffer)
        at = &(*at)->next;
    *at = buffer->next;
    pthread_mutex_unlock(&map.lock);
    gf_extent_drop(&buffer->extent);
    free(buffer);
}

/* No failure, or the context's own trouble, a capture's or a call's in a host function: no reason not to try again. */
static bool expected(CUresult result)
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

bool gf_large_alloc(const struct gf_large_wish *wish, void **pp, size_t bytes, unsigned flags,
                    CUresult *ret_result, struct gf_fault *ret_fault)
{
    struct buffer *buffer = calloc(1, sizeof(*buffer));

    *ret_fault = (struct gf_fault){0};
    if (!buffer)
        return false;
    ret_fault->error = -gf_extent_make(wish->pool, bytes, wish->node, &buffer->extent,
                                       &ret_fault->call);
    if (ret_fault->error) {
        free(buffer);
        return false;
    }
    buffer->bytes = bytes;
    buffer->context = wish->context;
    buffer->flags = wish->flags;
    /* The two calls' flags have the same values, and are reported alike. */
    const CUresult result = wish->cuda->cuMemHostRegister_v2(
        buffer->extent.at, GF_PLANTED(registers_half) ? bytes / 2 : bytes, flags);
    *ret_fault = (struct gf_fault){.call = expected(result) ? NULL : "cuMemHostRegister",
                                   .result = result};
    *ret_result = result;
    if (result == CUDA_SUCCESS) {
        put(buffer);
        *pp = buffer->extent.at;
        return true;
    }
    gf_extent_drop(&buffer->extent);
    free(buffer);
    /* Refused beside a capture, which that has ended: as the driver's own call would have done. */
    return result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* Claimed ones only. */
static void lose(struct buffer *buffer)
{
    pthread_mutex_lock(&map.lock);
    buffer->lost = true;
    const bool orphaned = buffer->orphaned;
    pthread_mutex_unlock(&map.lock);
    if (orphaned)
        drop(buffer);
}

/* Unmapped it must not be while a device could still write to it: the driver is asked in its own context, too. */
static CUresult unregister_there(const struct gf_cuda *cuda, void *p)
{
    CUcontext owner = NULL, popped;
    if (!cuda->cuPointerGetAttribute || !cuda->cuCtxPushCurrent_v2 || !cuda->cuCtxPopCurrent_v2 ||
        cuda->cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, (uintptr_t)p) !=
            CUDA_SUCCESS)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED; /* nobody knows it any more */
    CUresult result = cuda->cuCtxPushCurrent_v2(owner);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuda->cuMemHostUnregister(p);
    cuda->cuCtxPopCurrent_v2(&popped);
    return result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED ? CUDA_ERROR_UNKNOWN : result;
}

/* Waits as cuMemFreeHost does. */
static CUresult unregister(const struct gf_cuda *cuda, void *p)
{
    const CUresult result = cuda->cuMemHostUnregister(p);
    if (result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
        return unregister_there(cuda, p);
    return expected(result) ? result : cuda->cuMemHostUnregister(p);
}

bool gf_large_free(const struct gf_cuda *cuda, void *p, CUresult *ret_result,
                   struct gf_fault *ret_fault)
{
    struct buffer *buffer = claim(p);

    *ret_fault = (struct gf_fault){0};
    if (!buffer)
        return false;
    CUresult result = unregister(cuda, p);
    if (result == CUDA_SUCCESS) {
        drop(buffer);
    } else if (result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) {
        /* Its context ended by a way that is not seen: the driver's own would be gone too. */
        drop(buffer);
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (!expected(result)) {
        /* The program's own call would have waited for its work, and have told of its trouble. */
        *ret_fault = (struct gf_fault){.call = "cuMemHostUnregister", .result = result};
        lose(buffer);
        result = cuda->cuCtxSynchronize ? cuda->cuCtxSynchronize() : CUDA_SUCCESS;
    } else if (!unclaim(buffer)) {
        drop(buffer);
    }
    *ret_result = result;
    return true;
}

bool gf_large_unregister(const struct gf_cuda *cuda, void *p, CUresult *ret_result)
{
    pthread_mutex_lock(&map.lock);
    const struct buffer *buffer = *bucket_of(p);
    while (buffer && (buffer->extent.at != p || buffer->lost))
        buffer = buffer->next;
    const size_t bytes = buffer ? buffer->bytes : 0;
    pthread_mutex_unlock(&map.lock);
    if (!bytes || GF_PLANTED(lets_unregister))
        return false;
    /* Of its inside: refused as the driver refuses its own memory, after all other checks. */
    *ret_result = cuda->cuMemHostUnregister((char *)p + bytes / 2);
    return true;
}

bool gf_large_meets(const void *p, size_t bytes)
{
    const uintptr_t start = (uintptr_t)p;
    bool meets = false;
    pthread_mutex_lock(&map.lock);
    for (size_t i = 0; i < BUCKETS && !meets; i++)
        for (const struct buffer *b = map.bucket[i]; b && !meets; b = b->next)
            meets = start < (uintptr_t)b->extent.at + b->extent.bytes &&
                    (uintptr_t)b->extent.at < start + bytes;
    pthread_mutex_unlock(&map.lock);
    return meets;
}

/* Locked. The one that p is in. */
static const struct buffer *holder(const void *p)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct buffer *b = map.bucket[i]; b; b = b->next)
            if ((uintptr_t)p - (uintptr_t)b->extent.at < b->bytes)
                return b;
    return NULL;
}

bool gf_large_flags(const void *p, unsigned *flags)
{
    pthread_mutex_lock(&map.lock);
    const struct buffer *buffer = holder(p);
    if (buffer && !(buffer->flags & CU_MEMHOSTALLOC_PORTABLE))
        *flags &= ~(unsigned)CU_MEMHOSTALLOC_PORTABLE;
    pthread_mutex_unlock(&map.lock);
    return buffer;
}

bool gf_large_mapping(const void *p, size_t *bytes)
{
    pthread_mutex_lock(&map.lock);
    const struct buffer *buffer = holder(p);
    if (buffer)
        *bytes = buffer->extent.mapped;
    pthread_mutex_unlock(&map.lock);
    return buffer;
}

void gf_large_forget(uint64_t context)
{
    struct buffer *gone = NULL;
    pthread_mutex_lock(&map.lock);
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct buffer **at = &map.bucket[i], *b; (b = *at);) {
            const bool ends = b->context == context;
            b->orphaned |= ends;
            if (!ends || (b->leaving && !b->lost)) {
                at = &b->next;
                continue;
            }
            *at = b->next;
            b->next = gone;
            gone = b;
        }
    pthread_mutex_unlock(&map.lock);
    while (gone) {
        struct buffer *next = gone->next;
        gf_extent_drop(&gone->extent);
        free(gone);
        gone = next;
    }
}

void gf_large_held(uint64_t ret[GF_LARGE_NODES + 1])
{
    for (size_t i = 0; i <= GF_LARGE_NODES; i++)
        ret[i] = 0;
    if (!gf_lock_briefly(&map.lock))
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct buffer *b = map.bucket[i]; b; b = b->next) {
            const bool known = b->extent.node >= 0 && b->extent.node < GF_LARGE_NODES;
            ret[known ? b->extent.node : GF_LARGE_NODES] += b->bytes;
        }
    pthread_mutex_unlock(&map.lock);
}
