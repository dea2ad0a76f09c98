/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own allocator, with the calls timed that can be slow and are few: of blocks from
 * LARGE on. What it does inside is not known, and a clock around every call would cost several times a
 * small one. A free is timed if its block stands in a table of large ones.
 */
#include "heap/watched.h"

#include "heap/slow.h"

#define LARGE ((size_t)1 << 20)
#define ROWS 1024
#define TRIES 8

#define REGIONS 4096

struct row {
    uintptr_t block; /* 0: free; BUSY: being filled in */
    size_t size;
};

#define BUSY ((uintptr_t)1)

static struct gf_family plain;
static struct row rows[ROWS];
/*
 * How many of them begin in each MiB of addresses. Small blocks lie elsewhere, so a free of one looks
 * here and nowhere else. Where in its page a large one begins tells nothing: jemalloc scatters them.
 */
static uint16_t begun[REGIONS];

static struct row *row_of(uintptr_t block, unsigned number)
{
    return &rows[(unsigned)((block * UINT64_C(0x9e3779b97f4a7c15)) >> 48) % ROWS ^ number];
}

static inline uint16_t *begun_beside(const void *block)
{
    return &begun[((uintptr_t)block >> 20) % REGIONS];
}

static inline bool may_be_large(const void *block)
{
    return __atomic_load_n(begun_beside(block), __ATOMIC_RELAXED) && block;
}

/* One that finds no row is freed untimed. */
static void remember(const void *block, size_t size)
{
    if (size < LARGE || !block)
        return;
    for (unsigned i = 0; i < TRIES; i++) {
        struct row *row = row_of((uintptr_t)block, i);
        uintptr_t none = 0;
        if (__atomic_load_n(&row->block, __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&row->block, &none, BUSY, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
            __atomic_store_n(&row->size, size, __ATOMIC_RELAXED);
            __atomic_fetch_add(begun_beside(block), 1, __ATOMIC_RELAXED);
            __atomic_store_n(&row->block, (uintptr_t)block, __ATOMIC_RELEASE);
            return;
        }
    }
}

/* Before the block is freed, since its address is then somebody else's. 0: it is none. */
static size_t forget(const void *block)
{
    for (unsigned i = 0; i < TRIES; i++) {
        struct row *row = row_of((uintptr_t)block, i);
        if (__atomic_load_n(&row->block, __ATOMIC_ACQUIRE) == (uintptr_t)block) {
            const size_t size = __atomic_load_n(&row->size, __ATOMIC_RELAXED);
            __atomic_store_n(&row->block, 0, __ATOMIC_RELEASE);
            __atomic_fetch_sub(begun_beside(block), 1, __ATOMIC_RELAXED);
            return size;
        }
    }
    return 0;
}

static void leave(bool framed, const void *block, size_t size)
{
    if (framed)
        gf_slow_leave(block);
    remember(block, size);
}

static GF_COLD void *large_malloc(size_t size)
{
    const bool framed = gf_slow_enter(gf_slow_malloc, size, 0);
    void *block = plain.malloc(size);
    leave(framed, block, size);
    return block;
}

static void *malloc_(size_t size)
{
    return gf_likely(size < LARGE) ? plain.malloc(size) : large_malloc(size);
}

static GF_COLD void *large_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return plain.calloc(count, size);
    const bool framed = gf_slow_enter(gf_slow_calloc, bytes, bytes);
    void *block = plain.calloc(count, size);
    leave(framed, block, bytes);
    return block;
}

static void *calloc_(size_t count, size_t size)
{
    size_t bytes;
    return gf_likely(!__builtin_mul_overflow(count, size, &bytes) && bytes < LARGE)
               ? plain.calloc(count, size)
               : large_calloc(count, size);
}

static GF_COLD void *large_realloc(void *block, size_t size, size_t before)
{
    const bool framed = gf_slow_enter(gf_slow_realloc, size, gf_min(before, size));
    void *moved = plain.realloc(block, size);
    /* The old one is gone, or untouched where there was no memory. */
    leave(framed, moved ? moved : size ? block : NULL, moved ? size : before);
    return moved;
}

static void *realloc_(void *block, size_t size)
{
    const size_t before = may_be_large(block) ? forget(block) : 0;
    return gf_likely(size < LARGE && !before) ? plain.realloc(block, size)
                                              : large_realloc(block, size, before);
}

static GF_COLD void large_free(void *block, size_t size)
{
    const bool framed = gf_slow_enter(gf_slow_free, size, 0);
    plain.free(block);
    if (framed)
        gf_slow_leave(NULL);
}

static void free_(void *block)
{
    const size_t size = gf_unlikely(may_be_large(block)) ? forget(block) : 0;
    if (gf_unlikely(size))
        large_free(block, size);
    else
        plain.free(block);
}

static int posix_memalign_(void **ret, size_t alignment, size_t size)
{
    if (gf_likely(size < LARGE))
        return plain.posix_memalign(ret, alignment, size);
    const bool framed = gf_slow_enter(gf_slow_memalign, size, 0);
    const int result = plain.posix_memalign(ret, alignment, size);
    leave(framed, result ? NULL : *ret, size);
    return result;
}

static void *aligned(void *(*real)(size_t alignment, size_t size), size_t alignment, size_t size)
{
    if (gf_likely(size < LARGE))
        return real(alignment, size);
    const bool framed = gf_slow_enter(gf_slow_memalign, size, 0);
    void *block = real(alignment, size);
    leave(framed, block, size);
    return block;
}

static void *aligned_alloc_(size_t alignment, size_t size)
{
    return aligned(plain.aligned_alloc, alignment, size);
}

static void *memalign_(size_t alignment, size_t size)
{
    return aligned(plain.memalign, alignment, size);
}

#define WATCH(symbol)                                                                              \
    if (plain.symbol)                                                                              \
    __atomic_store_n(&gf_family_next.symbol, symbol##_, __ATOMIC_RELEASE)

void gf_watched_prepare(void)
{
    plain = gf_family_next;
}

void gf_watched_start(void)
{
    static bool started;

    if (__atomic_test_and_set(&started, __ATOMIC_ACQ_REL))
        return;
    gf_slow_foreign();
    WATCH(malloc);
    WATCH(calloc);
    WATCH(realloc);
    WATCH(free);
    WATCH(posix_memalign);
    WATCH(aligned_alloc);
    WATCH(memalign);
}
