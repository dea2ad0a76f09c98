/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/small.h"

#include "transfer/briefly.h"
#include "transfer/plant.h"
#include "transfer/zero.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 256
#define UNIT ((uintptr_t)256) /* what the driver rounds blocks to */
#define UNITS (GF_SMALL_CHUNK / UNIT)
#define ANCHOR ((size_t)4096) /* blocks behind it begin where they would in a page without it */

/* A mapping of the driver's that holds, or held, blocks of the program's. */
struct chunk {
    struct chunk *next;
    uintptr_t base;
    uint64_t context;
    unsigned flags; /* with which the driver would have made it for the blocks that live in it */
    unsigned live;  /* blocks of the program's in it */
    /*
     * What is as the driver's own would be: zeroed or handed out since the driver would have made
     * the mapping anew. The rest holds what was there before.
     */
    uint64_t right[UNITS / 64];
};

/* A tiny block of ours that keeps a mapping; one a context. */
struct anchor {
    struct anchor *next;
    uint64_t context;
    void *at; /* NULL: somebody is about to allocate it, or to free it */
    uintptr_t base;
};

static struct {
    pthread_mutex_t lock;
    struct chunk *bucket[BUCKETS];
    struct anchor *anchors;
    unsigned count; /* of anchors; read without the lock too */
    bool trimmed;   /* a mapping may be met again that is not fresh */
} map = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct chunk **bucket_of(uintptr_t base)
{
    return &map.bucket[(base >> 21) * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}

/* Locked. */
static struct chunk *find(uintptr_t base)
{
    struct chunk *chunk = *bucket_of(base);
    while (chunk && chunk->base != base)
        chunk = chunk->next;
    return chunk;
}

/* Locked. Of a context; of a mapping. */
static struct anchor *anchor_of(uint64_t context)
{
    struct anchor *anchor = map.anchors;
    while (anchor && anchor->context != context)
        anchor = anchor->next;
    return anchor;
}

static struct anchor *anchor_in(uintptr_t base)
{
    struct anchor *anchor = map.anchors;
    while (anchor && (!anchor->at || anchor->base != base))
        anchor = anchor->next;
    return anchor;
}

/* Locked. */
static void drop_anchor(struct anchor *anchor)
{
    struct anchor **at = &map.anchors;
    while (*at != anchor)
        at = &(*at)->next;
    *at = anchor->next;
    __atomic_store_n(&map.count, map.count - 1, __ATOMIC_RELAXED);
    free(anchor);
}

/* Locked. Nothing of the program's is in it, and nothing of ours keeps it. */
static void drop_if_empty(struct chunk *chunk)
{
    struct chunk **at = bucket_of(chunk->base);
    if (chunk->live > 0 || anchor_in(chunk->base))
        return;
    while (*at != chunk)
        at = &(*at)->next;
    *at = chunk->next;
    free(chunk);
}

bool gf_small_can(const struct gf_cuda *cuda)
{
    return cuda->cuMemHostAlloc && cuda->cuMemFreeHost && cuda->cuPointerGetAttribute &&
           cuda->cuPointerGetAttributes;
}

/* Asked first of pointers that may be none of the driver's: about those base_of's question is an error. */
static bool is_host(const struct gf_cuda *cuda, const void *p)
{
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    CUmemorytype type = 0;
    void *into[] = {&type};
    return cuda->cuPointerGetAttributes(1, what, into, (uintptr_t)p) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_HOST;
}

/* Where the driver's mapping begins that p lies in; 0: in none that it shares among blocks. */
static uintptr_t base_of(const struct gf_cuda *cuda, const void *p)
{
    const CUdeviceptr at = (uintptr_t)p;
    void *base = NULL;
    size_t size = 0;
    if (cuda->cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at) !=
            CUDA_SUCCESS ||
        cuda->cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, at) !=
            CUDA_SUCCESS ||
        size != GF_SMALL_CHUNK || at - (uintptr_t)base >= size)
        return 0;
    return (uintptr_t)base;
}

/* Locked. The mapping that a block has just been cut out of. */
static struct chunk *enter(uintptr_t base, uint64_t context)
{
    struct chunk *chunk = base ? find(base) : NULL;
    if (base && !chunk && (chunk = calloc(1, sizeof(*chunk)))) {
        chunk->base = base;
        chunk->context = context;
        if (!map.trimmed)
            memset(chunk->right, 0xff, sizeof(chunk->right));
        chunk->next = *bucket_of(base);
        *bucket_of(base) = chunk;
    }
    return chunk;
}

/* What a block has to itself, counted in its mapping. */
struct span {
    size_t first, end;
    uint64_t wrong[UNITS / 64]; /* the part of it that holds what was there before */
};

/* Locked. A block of the program's from now on; all of it will be right. */
static void hand_out(struct chunk *chunk, const void *p, size_t bytes, unsigned flags,
                     struct span *ret)
{
    const size_t at = (uintptr_t)p - chunk->base;
    ret->first = (at + UNIT - 1) / UNIT;
    ret->end = gf_min((at + bytes) / UNIT, UNITS);
    if (chunk->live++ == 0)
        chunk->flags = flags;
    for (size_t i = ret->first; i < ret->end; i = (i / 64 + 1) * 64) {
        uint64_t mask = UINT64_MAX << i % 64;
        if (ret->end / 64 == i / 64)
            mask &= (UINT64_C(1) << ret->end % 64) - 1;
        ret->wrong[i / 64] = mask & ~chunk->right[i / 64];
        chunk->right[i / 64] |= mask;
    }
}

/* The first at or behind i that is (not) wrong. */
static size_t seek(const struct span *span, size_t i, bool wrong)
{
    while (i < span->end) {
        const uint64_t word = span->wrong[i / 64] ^ (wrong ? 0 : UINT64_MAX);
        const uint64_t rest = word >> i % 64;
        if (rest)
            return gf_min(i + (size_t)__builtin_ctzll(rest), span->end);
        i = (i / 64 + 1) * 64;
    }
    return span->end;
}

/* The block is the caller's alone. What it may share a unit with is zeroed every time. */
static void make_right(char *p, size_t bytes, uintptr_t base, const struct span *span)
{
    if (GF_PLANTED(leaves_old_bytes))
        return;
    char *const inner = (char *)base + span->first * UNIT;
    char *const outer = (char *)base + span->end * UNIT;
    if (span->first >= span->end) {
        memset(p, 0, bytes);
        return;
    }
    memset(p, 0, (size_t)(inner - p));
    memset(outer, 0, (size_t)(p + bytes - outer));
    for (size_t i = span->first, end; (i = seek(span, i, true)) < span->end; i = end) {
        end = seek(span, i, false);
        gf_zero((char *)base + i * UNIT, (end - i) * UNIT);
    }
}

/* The driver has just cut a block out for the program. */
static void handed_out(const struct gf_cuda *cuda, uint64_t context, char *p, size_t bytes,
                       unsigned flags)
{
    struct span span;
    const uintptr_t base = base_of(cuda, p);
    pthread_mutex_lock(&map.lock);
    struct chunk *chunk = enter(base, context);
    if (chunk)
        hand_out(chunk, p, bytes, flags, &span);
    pthread_mutex_unlock(&map.lock);
    if (chunk)
        make_right(p, bytes, base, &span);
}

/* The place for a context's anchor; NULL: it has one, somebody is at it, or there are enough. */
static struct anchor *claim(uint64_t context, unsigned most)
{
    struct anchor *anchor = NULL;
    pthread_mutex_lock(&map.lock);
    if (!anchor_of(context) && map.count < most && (anchor = calloc(1, sizeof(*anchor)))) {
        anchor->context = context;
        anchor->next = map.anchors;
        map.anchors = anchor;
        __atomic_store_n(&map.count, map.count + 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&map.lock);
    return anchor;
}

/*
 * Keeps the mapping that the program's next block would be put into. Refused beside a capture, which
 * that has ended: then the program's own call is not made any more.
 */
static CUresult settle_anchor(const struct gf_cuda *cuda, struct anchor *anchor, unsigned flags)
{
    void *at = NULL;
    const uint64_t context = anchor->context;
    const CUresult result = cuda->cuMemHostAlloc(&at, ANCHOR, flags);
    const uintptr_t base = result == CUDA_SUCCESS ? base_of(cuda, at) : 0;
    pthread_mutex_lock(&map.lock);
    if (anchor_of(context) == anchor) { /* else the context has ended */
        enter(base, context);
        anchor->at = at;
        anchor->base = base;
        if (!at)
            drop_anchor(anchor);
    }
    pthread_mutex_unlock(&map.lock);
    return result;
}

CUresult gf_small_alloc(const struct gf_cuda *cuda, uint64_t context, unsigned most, void **pp,
                        size_t bytes, unsigned flags)
{
    struct anchor *const anchor = claim(context, most);
    if (anchor && settle_anchor(cuda, anchor, flags) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    const CUresult result = cuda->cuMemHostAlloc(pp, bytes, flags);
    if (result == CUDA_SUCCESS)
        handed_out(cuda, context, *pp, bytes, flags);
    return result;
}

/* After the driver's free: the block has left its mapping, or has not. Whose anchor keeps that, alone; 0. */
static uint64_t settle(uintptr_t base, bool left)
{
    pthread_mutex_lock(&map.lock);
    struct chunk *chunk = find(base);
    const struct anchor *anchor = anchor_in(base);
    if (chunk && !left)
        chunk->live++;
    const uint64_t kept = left && anchor && chunk && chunk->live == 0 ? anchor->context : 0;
    if (chunk)
        drop_if_empty(chunk);
    pthread_mutex_unlock(&map.lock);
    return kept;
}

enum leaver { leaver_foreign, leaver_anchor, leaver_block };

/* A block is about to leave. Before the driver's free: who is given its place next finds it marked. */
static enum leaver leave(uintptr_t base, const void *p)
{
    enum leaver leaver = leaver_foreign;
    pthread_mutex_lock(&map.lock);
    struct chunk *chunk = base ? find(base) : NULL;
    const struct anchor *anchor = base ? anchor_in(base) : NULL;
    if (anchor && anchor->at == p) {
        leaver = leaver_anchor;
    } else if (chunk && chunk->live > 0) {
        leaver = leaver_block;
        if (--chunk->live == 0)
            memset(chunk->right, 0, sizeof(chunk->right));
    }
    pthread_mutex_unlock(&map.lock);
    return leaver;
}

bool gf_small_free(const struct gf_cuda *cuda, void *p, CUresult *ret_result, uint64_t *ret_kept)
{
    const uintptr_t base = is_host(cuda, p) ? base_of(cuda, p) : 0;

    *ret_kept = 0;
    switch (leave(base, p)) {
    case leaver_foreign:
        return false;
    case leaver_anchor: /* unknown to the program: refused, after all other checks */
        *ret_result = cuda->cuMemFreeHost((char *)p + 1);
        return true;
    case leaver_block:
        break;
    }
    *ret_result = cuda->cuMemFreeHost(p);
    *ret_kept = settle(base, *ret_result == CUDA_SUCCESS);
    return true;
}

bool gf_small_unregister(const struct gf_cuda *cuda, void *p, CUresult *ret_result)
{
    if (!__atomic_load_n(&map.count, __ATOMIC_RELAXED))
        return false;
    const uintptr_t base = is_host(cuda, p) ? base_of(cuda, p) : 0;
    pthread_mutex_lock(&map.lock);
    const struct anchor *anchor = base ? anchor_in(base) : NULL;
    const bool is_anchor = anchor && anchor->at == p;
    pthread_mutex_unlock(&map.lock);
    if (!is_anchor)
        return false;
    *ret_result = cuda->cuMemHostUnregister(p);
    if (*ret_result == CUDA_ERROR_INVALID_VALUE) /* the driver would not know it */
        *ret_result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    return true;
}

void gf_small_flags(const struct gf_cuda *cuda, const void *p, unsigned *flags)
{
    if (!__atomic_load_n(&map.count, __ATOMIC_RELAXED))
        return;
    const uintptr_t base = base_of(cuda, p);
    pthread_mutex_lock(&map.lock);
    const struct chunk *chunk = base ? find(base) : NULL;
    if (chunk && chunk->live > 0)
        *flags = (*flags & ~(unsigned)CU_MEMHOSTALLOC_PORTABLE) |
                 (chunk->flags & CU_MEMHOSTALLOC_PORTABLE);
    pthread_mutex_unlock(&map.lock);
}

/* Takes the anchor's block out if nothing else is in its mapping. */
static void *lift(uint64_t context, uintptr_t *ret_base)
{
    void *at = NULL;
    pthread_mutex_lock(&map.lock);
    struct anchor *anchor = anchor_of(context);
    const struct chunk *chunk = anchor && anchor->base ? find(anchor->base) : NULL;
    if (anchor && (!chunk || chunk->live == 0)) {
        at = anchor->at;
        *ret_base = anchor->base;
        anchor->at = NULL;
        map.trimmed = true;
    }
    pthread_mutex_unlock(&map.lock);
    return at;
}

bool gf_small_trim(const struct gf_cuda *cuda, uint64_t context)
{
    uintptr_t base = 0;
    void *at = lift(context, &base);
    if (!at)
        return false;
    const bool gone = cuda->cuMemFreeHost(at) == CUDA_SUCCESS;
    pthread_mutex_lock(&map.lock);
    struct anchor *anchor = anchor_of(context);
    struct chunk *chunk = base ? find(base) : NULL;
    if (anchor && gone)
        drop_anchor(anchor);
    else if (anchor)
        anchor->at = at;
    if (chunk)
        drop_if_empty(chunk);
    pthread_mutex_unlock(&map.lock);
    return gone;
}

void gf_small_forget(uint64_t context)
{
    struct anchor *anchor;
    pthread_mutex_lock(&map.lock);
    if ((anchor = anchor_of(context)))
        drop_anchor(anchor);
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct chunk **at = &map.bucket[i], *c; (c = *at);) {
            if (c->context != context) {
                at = &c->next;
                continue;
            }
            *at = c->next;
            free(c);
        }
    pthread_mutex_unlock(&map.lock);
}

uint64_t gf_small_kept(void)
{
    uint64_t bytes = 0;
    if (!gf_lock_briefly(&map.lock))
        return 0;
    for (const struct anchor *a = map.anchors; a; a = a->next) {
        const struct chunk *chunk = a->base ? find(a->base) : NULL;
        bytes += chunk && chunk->live == 0 ? GF_SMALL_CHUNK : 0;
    }
    pthread_mutex_unlock(&map.lock);
    return bytes;
}
