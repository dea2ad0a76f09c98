/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pinned/pinned_cache.h"

#include "base/atomic.h"
#include "engine/transfer/pinned/kept_mapping.h"
#include "engine/transfer/setup.h"

#include <pthread.h>
#include <stdlib.h>

#define BUCKETS 256
#define UNIT ((uintptr_t)256) /* the driver rounds the size of blocks up to this */
#define UNITS (GF_PINNED_CHUNK_SIZE / UNIT)

/*
 * A bitmap for each chunk marks the clean units: those that hold the bytes that the program would
 * find without the library. The callers of these functions hold the lock, except for clean_span.
 */

/* One mapping of the driver that holds, or held, blocks of the program. */
struct chunk {
    struct chunk *next;
    uintptr_t base;
    uint64_t context;
    /*
     * without the library, flags of the block for which the driver would have created the mapping
     */
    unsigned flags;
    unsigned live;  /* number of blocks of the program in the mapping */
    uint64_t forks; /* gf_kept_mapping_forks() before children could inherit the mapping */
    bool hidden;    /* children do not inherit it, because the program has no block in it */
    bool showable;  /* the kernel can let children inherit it again */
    /*
     * Has a bit set for each clean unit. Without the library, the driver would have created a new
     * mapping at some time. A unit is clean if it was zeroed or handed out since then. Other units
     * hold bytes of earlier blocks.
     */
    uint64_t clean[UNITS / 64];
};

/* The units of a chunk that belong to one block alone: from `first` to before `end`. */
struct span {
    size_t first, end;
    uint64_t dirty[UNITS / 64]; /* bits of the units of the span that were not clean */
};

static struct chunk *chunks[BUCKETS];

static struct chunk **chunk_bucket(uintptr_t base)
{
    return &chunks[(base >> 21) * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}

/* The chunk that begins at `base`; NULL if not found, or if `base` is 0. */
static struct chunk *find_chunk(uintptr_t base)
{
    struct chunk *chunk = base ? *chunk_bucket(base) : NULL;
    while (chunk && chunk->base != base)
        chunk = chunk->next;
    return chunk;
}

/*
 * The same, but adds the chunk if it is not found. `clean`: the mapping of an added chunk is new,
 * so all its units are clean. NULL: out of memory, or base is 0.
 */
static struct chunk *add_chunk(uintptr_t base, uint64_t context, bool clean)
{
    struct chunk *chunk = find_chunk(base);
    if (base && !chunk && (chunk = calloc(1, sizeof(*chunk)))) {
        chunk->base = base;
        chunk->context = context;
        if (clean)
            memset(chunk->clean, 0xff, sizeof(chunk->clean));
        chunk->next = *chunk_bucket(base);
        *chunk_bucket(base) = chunk;
    }
    return chunk;
}

static void remove_chunk(struct chunk *chunk)
{
    struct chunk **at = chunk_bucket(chunk->base);
    while (*at != chunk)
        at = &(*at)->next;
    *at = chunk->next;
    free(chunk);
}

/* Removes the chunks of a context that has ended. */
static void forget_chunks(uint64_t context)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct chunk **at = &chunks[i], *c; (c = *at);) {
            if (c->context != context) {
                at = &c->next;
                continue;
            }
            *at = c->next;
            free(c);
        }
}

/*
 * Adds 1 to the chunk's count of blocks for a new block of the program. Marks the units that belong
 * to this block alone as clean, and returns in *ret which of them were not clean. The caller must
 * call clean_span before the program gets the block.
 */
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
        ret->dirty[i / 64] = mask & ~chunk->clean[i / 64];
        chunk->clean[i / 64] |= mask;
    }
}

/* Returns the first dirty unit at or after i, or the first clean unit if `dirty` is false. */
static size_t seek_unit(const struct span *span, size_t i, bool dirty)
{
    while (i < span->end) {
        const uint64_t word = span->dirty[i / 64] ^ (dirty ? 0 : UINT64_MAX);
        const uint64_t rest = word >> i % 64;
        if (rest)
            return gf_min(i + (size_t)__builtin_ctzll(rest), span->end);
        i = (i / 64 + 1) * 64;
    }
    return span->end;
}

/*
 * Zeroes the dirty units of a block, before the program gets it. Always zeroes the block's bytes at
 * its two ends, in units that other blocks may share.
 */
static void clean_span(const struct span *span, uintptr_t base, char *p, size_t bytes)
{
    char *const inner = (char *)base + span->first * UNIT;
    char *const outer = (char *)base + span->end * UNIT;
    if (span->first >= span->end) {
        memset(p, 0, bytes);
        return;
    }
    memset(p, 0, (size_t)(inner - p));
    memset(outer, 0, (size_t)(p + bytes - outer));
    for (size_t i = span->first, end; (i = seek_unit(span, i, true)) < span->end; i = end) {
        end = seek_unit(span, i, false);
        gf_zero((char *)base + i * UNIT, (end - i) * UNIT);
    }
}

/*
 * A keepalive has the size of a page, so that the blocks after it have the same offset in a page as
 * without it.
 */
#define KEEPALIVE_SIZE ((size_t)4096)

/* The keepalive of a context. Each context has at most one. */
struct keepalive {
    struct keepalive *next;
    uint64_t context;
    void *at; /* the block; NULL while a thread allocates or frees it */
    uintptr_t base;
};

/*
 * Guards keepalives and chunks. An innermost lock: only malloc, free and system calls for a range
 * are called under it.
 */
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static struct keepalive *keepalives;
static _Atomic unsigned keepalive_count; /* written under the lock */
/*
 * Set before a keepalive is freed for the first time. From then on, a chunk that is added may
 * describe a mapping that the driver created earlier, with bytes of earlier blocks.
 */
static bool was_trimmed;
static _Atomic bool incomplete; /* see gf_pinned_cache_set_complete */

/* Keepalives. The callers of these functions hold the lock. */

static struct keepalive *find_of_context(uint64_t context)
{
    struct keepalive *keepalive = keepalives;
    while (keepalive && keepalive->context != context)
        keepalive = keepalive->next;
    return keepalive;
}

static struct keepalive *find_in_mapping(uintptr_t base)
{
    struct keepalive *keepalive = keepalives;
    while (keepalive && (!keepalive->at || keepalive->base != base))
        keepalive = keepalive->next;
    return keepalive;
}

static struct keepalive *add_keepalive(uint64_t context)
{
    struct keepalive *keepalive = calloc(1, sizeof(*keepalive));
    if (!keepalive)
        return NULL;
    keepalive->context = context;
    keepalive->next = keepalives;
    keepalives = keepalive;
    gf_store_relaxed(&keepalive_count, gf_load_relaxed(&keepalive_count) + 1);
    return keepalive;
}

static void remove_keepalive(struct keepalive *keepalive)
{
    struct keepalive **at = &keepalives;
    while (*at != keepalive)
        at = &(*at)->next;
    *at = keepalive->next;
    gf_store_relaxed(&keepalive_count, gf_load_relaxed(&keepalive_count) - 1);
    free(keepalive);
}

/* Removes a chunk that holds no block of the program and no keepalive. */
static void remove_if_empty(struct chunk *chunk)
{
    if (chunk->live == 0 && !find_in_mapping(chunk->base))
        remove_chunk(chunk);
}

/* Queries to the driver. */

bool gf_pinned_cache_can(const struct gf_cuda *cuda)
{
    return cuda->cuMemHostAlloc && cuda->cuMemFreeHost && cuda->cuPointerGetAttribute &&
           cuda->cuPointerGetAttributes;
}

/*
 * Called before base_of for a pointer that the driver may not know. For such a pointer, the driver
 * call in base_of would fail, and tools would report the error.
 */
static bool is_host(const struct gf_cuda *cuda, const void *p)
{
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    CUmemorytype type = 0;
    void *into[] = {&type};
    return cuda->cuPointerGetAttributes(1, what, into, (uintptr_t)p) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_HOST;
}

/*
 * Returns the start of the driver's mapping that contains p; 0 if p is not in one of the mappings
 * of 2 MiB that small blocks share.
 */
static uintptr_t base_of(const struct gf_cuda *cuda, const void *p)
{
    const CUdeviceptr at = (uintptr_t)p;
    void *base = NULL;
    size_t size = 0;
    if (cuda->cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at) !=
            CUDA_SUCCESS ||
        cuda->cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, at) != CUDA_SUCCESS ||
        size != GF_PINNED_CHUNK_SIZE || at - (uintptr_t)base >= size)
        return 0;
    return (uintptr_t)base;
}

/* Allocations. */

void gf_pinned_cache_set_complete(bool complete)
{
    gf_store_relaxed(&incomplete, !complete);
}

static bool inherit_chunk(const struct chunk *chunk, bool on)
{
    return gf_range_inherit((void *)chunk->base, GF_PINNED_CHUNK_SIZE, on);
}

/*
 * Hides a chunk without blocks from later children, as if it were unmapped. A chunk that the kernel
 * would not show again is not hidden. The lock is held.
 */
static bool hide_chunk(struct chunk *chunk)
{
    chunk->showable = chunk->showable || inherit_chunk(chunk, true);
    chunk->hidden = chunk->hidden || (chunk->showable && inherit_chunk(chunk, false));
    return chunk->hidden;
}

/*
 * Lets later children inherit a chunk that gets its first block. `forks` is older than the block. A
 * chunk that is new in the table may be hidden, if its keepalive was freed meanwhile. One that is
 * neither hidden nor new may have been inherited earlier. The lock is held.
 */
static void show_chunk(struct chunk *chunk, uint64_t forks)
{
    if (chunk->hidden || !chunk->forks)
        chunk->forks = forks;
    chunk->showable = inherit_chunk(chunk, true);
    chunk->hidden = false;
}

/* Records and cleans a block that the driver has just allocated from a mapping for the program. */
static void hand_out_block(const struct gf_cuda *cuda, uint64_t context, char *p, size_t bytes,
                           unsigned flags, uint64_t forks)
{
    struct span span;
    const uintptr_t base = base_of(cuda, p);
    if (!base)
        return;
    pthread_mutex_lock(&cache_lock);
    struct chunk *chunk = context == GF_PINNED_CACHE_NO_CONTEXT
                              ? find_chunk(base)
                              : add_chunk(base, context, !was_trimmed);
    if (chunk && !chunk->live)
        show_chunk(chunk, forks);
    if (chunk)
        hand_out(chunk, p, bytes, flags, &span);
    pthread_mutex_unlock(&cache_lock);
    if (chunk)
        clean_span(&span, base, p, bytes);
}

/*
 * Returns a new entry for a keepalive that the caller must allocate. NULL: the context already has
 * a keepalive, another thread is allocating one, or `most` contexts have one.
 */
static struct keepalive *claim_keepalive(uint64_t context, unsigned most)
{
    struct keepalive *keepalive = NULL;
    pthread_mutex_lock(&cache_lock);
    if (!gf_load_relaxed(&incomplete) && !find_of_context(context) &&
        gf_load_relaxed(&keepalive_count) < most)
        keepalive = add_keepalive(context);
    pthread_mutex_unlock(&cache_lock);
    return keepalive;
}

/* A chunk that a child may have inherited before it was hidden is freed with its first block. */
static void add_keepalive_chunk(uintptr_t base, uint64_t context, uint64_t forks)
{
    struct chunk *chunk = add_chunk(base, context, !was_trimmed);
    if (!chunk || chunk->live)
        return;
    chunk->forks = forks;
    if (hide_chunk(chunk) && gf_kept_mapping_forked(forks))
        chunk->hidden = false;
}

/* Allocates a keepalive, in the mapping that the driver would use for the program's next block. */
static CUresult alloc_keepalive(const struct gf_cuda *cuda, struct keepalive *keepalive,
                                unsigned flags, uint64_t forks)
{
    void *at = NULL;
    const uint64_t context = keepalive->context;
    const CUresult result = cuda->cuMemHostAlloc(&at, KEEPALIVE_SIZE, flags);
    const uintptr_t base = result == CUDA_SUCCESS ? base_of(cuda, at) : 0;
    pthread_mutex_lock(&cache_lock);
    if (find_of_context(context) == keepalive) { /* if the entry is gone, the context has ended */
        add_keepalive_chunk(base, context, forks);
        keepalive->at = at;
        keepalive->base = base;
        if (!at)
            remove_keepalive(keepalive);
    }
    pthread_mutex_unlock(&cache_lock);
    return result;
}

CUresult gf_pinned_cache_alloc(const struct gf_cuda *cuda, uint64_t context, unsigned most,
                               void **pp, size_t bytes, unsigned flags)
{
    const uint64_t forks = gf_kept_mapping_forks();
    /* for a larger block, the keepalive would have a mapping of its own */
    struct keepalive *const keepalive =
        bytes <= GF_PINNED_CHUNK_SIZE - 2 * KEEPALIVE_SIZE ? claim_keepalive(context, most) : NULL;
    /*
     * A capture is in progress, so the driver refused the keepalive's allocation and invalidated
     * the capture. The program's own call would have had the same effect.
     */
    if (keepalive &&
        alloc_keepalive(cuda, keepalive, flags, forks) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    const CUresult result = cuda->cuMemHostAlloc(pp, bytes, flags);
    if (result == CUDA_SUCCESS && *pp)
        hand_out_block(cuda, context, *pp, bytes, flags, forks);
    return result;
}

/* Frees. */

enum owner { owner_foreign, owner_keepalive, owner_program };

/*
 * Returns the owner of a block that is about to be freed. A block of the program is subtracted from
 * its chunk's count before the driver's call, because another thread may get the address as soon as
 * the driver has freed it. *ret_inherited: if a child has inherited the mapping, and the block is
 * its last one, the context of the mapping's keepalive, else 0.
 */
static enum owner take_back_block(uintptr_t base, const void *p, uint64_t *ret_inherited)
{
    enum owner owner = owner_foreign;
    pthread_mutex_lock(&cache_lock);
    struct chunk *chunk = find_chunk(base);
    const struct keepalive *keepalive = base ? find_in_mapping(base) : NULL;
    if (keepalive && keepalive->at == p) {
        owner = owner_keepalive;
    } else if (chunk && chunk->live > 0) {
        owner = owner_program;
        if (--chunk->live == 0)
            memset(chunk->clean, 0, sizeof(chunk->clean));
        if (keepalive && !chunk->live && gf_kept_mapping_forked(chunk->forks))
            *ret_inherited = keepalive->context;
    }
    pthread_mutex_unlock(&cache_lock);
    return owner;
}

/*
 * Prepares a chunk without blocks for later blocks, and hides it from children. The lock is held, so
 * no thread of the program has a block in it. False: a child has inherited blocks, and still sees
 * the pages.
 */
static bool make_reusable(struct chunk *chunk)
{
    return !gf_load_relaxed(&incomplete) && hide_chunk(chunk) &&
           !gf_kept_mapping_forked(chunk->forks) &&
           gf_range_reset((void *)chunk->base, GF_PINNED_CHUNK_SIZE);
}

/*
 * Called after the driver's call. If only a keepalive keeps the mapping now, returns the
 * keepalive's context, else 0. If the driver did not free the block, adds it to the chunk's count
 * again.
 */
static uint64_t settle_free(uintptr_t base, bool freed, bool *ret_reusable)
{
    pthread_mutex_lock(&cache_lock);
    struct chunk *chunk = find_chunk(base);
    const struct keepalive *keepalive = find_in_mapping(base);
    if (chunk && !freed)
        chunk->live++;
    const uint64_t kept = freed && keepalive && chunk && chunk->live == 0 ? keepalive->context : 0;
    *ret_reusable = !kept || make_reusable(chunk);
    if (chunk)
        remove_if_empty(chunk);
    pthread_mutex_unlock(&cache_lock);
    return kept;
}

bool gf_pinned_cache_free(const struct gf_cuda *cuda, void *p, CUresult *ret_result,
                          uint64_t *ret_kept, bool *ret_reusable)
{
    const uintptr_t base = is_host(cuda, p) ? base_of(cuda, p) : 0;
    uint64_t inherited = 0;

    *ret_kept = 0;
    *ret_reusable = true;
    switch (take_back_block(base, p, &inherited)) {
    case owner_foreign:
        return false;
    case owner_keepalive:
        /*
         * The program does not know the keepalive, so its call must fail. If p + 1 is passed, the
         * driver makes all its checks, and then refuses this address.
         */
        *ret_result = cuda->cuMemFreeHost((char *)p + 1);
        return true;
    case owner_program:
        break;
    }
    /* Another thread's next block would otherwise be in the mapping that a child has. */
    if (inherited)
        gf_pinned_cache_trim(cuda, inherited);
    *ret_result = cuda->cuMemFreeHost(p);
    *ret_kept = settle_free(base, *ret_result == CUDA_SUCCESS, ret_reusable);
    return true;
}

/* Other calls. */

bool gf_pinned_cache_unregister(const struct gf_cuda *cuda, void *p, CUresult *ret_result)
{
    if (!gf_load_relaxed(&keepalive_count))
        return false;
    const uintptr_t base = is_host(cuda, p) ? base_of(cuda, p) : 0;
    pthread_mutex_lock(&cache_lock);
    const struct keepalive *keepalive = base ? find_in_mapping(base) : NULL;
    const bool is_keepalive = keepalive && keepalive->at == p;
    pthread_mutex_unlock(&cache_lock);
    if (!is_keepalive)
        return false;
    *ret_result = cuda->cuMemHostUnregister(p);
    /* Without the library, the driver would not know p. */
    if (*ret_result == CUDA_ERROR_INVALID_VALUE)
        *ret_result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    return true;
}

void gf_pinned_cache_flags(const struct gf_cuda *cuda, const void *p, unsigned *flags)
{
    if (!gf_load_relaxed(&keepalive_count))
        return;
    const uintptr_t base = base_of(cuda, p);
    pthread_mutex_lock(&cache_lock);
    const struct chunk *chunk = find_chunk(base);
    if (chunk && chunk->live > 0)
        *flags = (*flags & ~(unsigned)CU_MEMHOSTALLOC_PORTABLE) |
                 (chunk->flags & CU_MEMHOSTALLOC_PORTABLE);
    pthread_mutex_unlock(&cache_lock);
}

/* Trimming. */

/*
 * Takes the keepalive's block out of its entry if its mapping holds no block of the program. The
 * caller frees the block.
 */
static void *claim_trim(uint64_t context, uintptr_t *ret_base)
{
    void *at = NULL;
    pthread_mutex_lock(&cache_lock);
    struct keepalive *keepalive = find_of_context(context);
    const struct chunk *chunk = keepalive ? find_chunk(keepalive->base) : NULL;
    if (keepalive && (!chunk || chunk->live == 0)) {
        at = keepalive->at;
        *ret_base = keepalive->base;
        keepalive->at = NULL;
        was_trimmed = true;
    }
    pthread_mutex_unlock(&cache_lock);
    return at;
}

bool gf_pinned_cache_trim(const struct gf_cuda *cuda, uint64_t context)
{
    uintptr_t base = 0;
    void *at = claim_trim(context, &base);
    if (!at)
        return false;
    const bool freed = cuda->cuMemFreeHost(at) == CUDA_SUCCESS;
    pthread_mutex_lock(&cache_lock);
    struct keepalive *keepalive = find_of_context(context);
    struct chunk *chunk = find_chunk(base);
    if (keepalive && freed)
        remove_keepalive(keepalive);
    else if (keepalive)
        keepalive->at = at;
    if (chunk)
        remove_if_empty(chunk);
    pthread_mutex_unlock(&cache_lock);
    return freed;
}

void gf_pinned_cache_forget(uint64_t context)
{
    struct keepalive *keepalive;
    pthread_mutex_lock(&cache_lock);
    if ((keepalive = find_of_context(context)))
        remove_keepalive(keepalive);
    forget_chunks(context);
    pthread_mutex_unlock(&cache_lock);
}

uint64_t gf_pinned_cache_kept(void)
{
    uint64_t bytes = 0;
    if (!gf_timed_lock(&cache_lock))
        return 0;
    for (const struct keepalive *k = keepalives; k; k = k->next) {
        const struct chunk *chunk = find_chunk(k->base);
        bytes += chunk && chunk->live == 0 ? GF_PINNED_CHUNK_SIZE : 0;
    }
    pthread_mutex_unlock(&cache_lock);
    return bytes;
}
