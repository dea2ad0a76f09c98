/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/passthrough.h"

#include "base/atomic.h"
#include "base/symbols.h"
#include "preload/heap/boot.h"
#include "preload/heap/slowpath.h"

static struct gf_family next; /* the functions of the program's own allocator */
/*
 * The functions of the program's own allocator, but free, realloc and malloc_usable_size can handle
 * blocks of the boot pool.
 */
struct gf_family gf_family_passthrough;
static struct gf_family plain; /* the same, for the timed functions, which replace some of them */
static struct gf_libc_family next_libc;
struct gf_libc_family gf_libc_names_passthrough;

static void passthrough_free(void *block)
{
    if (gf_likely(!gf_boot_owns(block)))
        next.free(block);
}

static void libc_free(void *block)
{
    if (gf_likely(!gf_boot_owns(block)))
        next_libc.__libc_free(block);
}

/* Moves a block of the boot pool to a block that `allocate` returns. */
static void *move_from_boot(void *block, size_t size, void *(*allocate)(size_t size))
{
    if (size == 0)
        return NULL;
    void *moved = allocate(size);
    if (moved)
        memcpy(moved, block, gf_min(size, gf_boot_size(block)));
    return moved;
}

static void *passthrough_realloc(void *block, size_t size)
{
    return gf_likely(!gf_boot_owns(block)) ? next.realloc(block, size)
                                           : move_from_boot(block, size, next.malloc);
}

static void *libc_realloc(void *block, size_t size)
{
    return gf_likely(!gf_boot_owns(block)) ? next_libc.__libc_realloc(block, size)
                                           : move_from_boot(block, size, next_libc.__libc_malloc);
}

static size_t passthrough_usable_size(void *block)
{
    return gf_boot_owns(block) ? gf_boot_size(block) : next.malloc_usable_size(block);
}

static void *find_next(const char *name)
{
    struct gf_symbol found;
    const void *const self = (const void *)(uintptr_t)&find_next;
    return gf_symbol_find_allocator(name, self, &found) ? found.address : NULL;
}

/*
 * If the program's allocator lacks a function, libc's function is found, as it would be without
 * this library.
 */
void gf_passthrough_resolve(void)
{
#define GF_FAMILY(name, type, parameters, arguments)                                               \
    next.name = (__typeof__(next.name))find_next(#name);
#include "abi/family.def"
#define GF_FAMILY_ALIAS(alias, name, type, parameters, arguments)                                  \
    next_libc.alias = (__typeof__(next_libc.alias))find_next(#alias);                              \
    if (!next_libc.alias)                                                                          \
        next_libc.alias = next.name;
#include "abi/family.def"
    if (!find_next("__libc_cfree")) /* newer versions of glibc lack it */
        next_libc.__libc_cfree = next_libc.__libc_free;
    gf_family_passthrough = plain = next;
    gf_libc_names_passthrough = next_libc;
    if (!gf_boot_used())
        /* No block of the pool exists, and later calls use this table, so none will exist. */
        return;
    gf_family_passthrough.free = passthrough_free;
    gf_family_passthrough.realloc = passthrough_realloc;
    gf_family_passthrough.malloc_usable_size = passthrough_usable_size;
    gf_libc_names_passthrough.__libc_free = gf_libc_names_passthrough.__libc_cfree = libc_free;
    gf_libc_names_passthrough.__libc_realloc = libc_realloc;
    plain = gf_family_passthrough;
}

#define TIMED_MIN ((size_t)1 << 20) /* smaller blocks are not timed */
#define ROWS 1024
#define TRIES 8
#define REGIONS 4096

/* A live large block. */
struct row {
    _Atomic uintptr_t block; /* 0: free; BUSY: being filled in */
    _Atomic size_t size;
};

#define BUSY ((uintptr_t)1)

static struct row rows[ROWS];
/*
 * How many large blocks begin in each MiB of addresses, for all addresses modulo REGIONS MiB. Small
 * blocks usually lie in other regions. So when a small block is freed, one word of this table shows
 * that the block has no row. A block's offset within its page would not show that, because some
 * allocators, such as jemalloc, choose a random offset for large blocks.
 */
static _Atomic uint16_t begun[REGIONS];

static struct row *block_row(uintptr_t block, unsigned number)
{
    return &rows[(unsigned)((block * UINT64_C(0x9e3779b97f4a7c15)) >> 48) % ROWS ^ number];
}

static inline _Atomic uint16_t *begun_near(const void *block)
{
    return &begun[((uintptr_t)block >> 20) % REGIONS];
}

static inline bool may_be_large(const void *block)
{
    return gf_load_relaxed(begun_near(block)) && block;
}

/* Records a large block. If no row is free, the later call that frees the block is not timed. */
static void add_block(const void *block, size_t size)
{
    if (size < TIMED_MIN || !block)
        return;
    for (unsigned i = 0; i < TRIES; i++) {
        struct row *row = block_row((uintptr_t)block, i);
        uintptr_t none = 0;
        if (gf_load_relaxed(&row->block) == 0 && gf_cas_acquire(&row->block, &none, BUSY)) {
            gf_store_relaxed(&row->size, size);
            gf_add_relaxed(begun_near(block), 1);
            gf_store_release(&row->block, (uintptr_t)block);
            return;
        }
    }
}

/*
 * Returns the size of a large block and frees the block's row; returns 0 if the block has no row.
 * Call this before the block is freed, because after that another thread can get the same address.
 */
static size_t remove_block(const void *block)
{
    for (unsigned i = 0; i < TRIES; i++) {
        struct row *row = block_row((uintptr_t)block, i);
        if (gf_load_acquire(&row->block) == (uintptr_t)block) {
            const size_t size = gf_load_relaxed(&row->size);
            gf_store_release(&row->block, 0);
            gf_sub_relaxed(begun_near(block), 1);
            return size;
        }
    }
    return 0;
}

static void end_timed(bool framed, const void *block, size_t size)
{
    if (framed)
        gf_slowpath_leave(block);
    add_block(block, size);
}

static GF_COLD void *large_malloc(size_t size)
{
    const bool framed = gf_slowpath_enter(gf_slowpath_malloc, size, 0);
    void *block = plain.malloc(size);
    end_timed(framed, block, size);
    return block;
}

static void *timed_malloc(size_t size)
{
    return gf_likely(size < TIMED_MIN) ? plain.malloc(size) : large_malloc(size);
}

static GF_COLD void *large_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return plain.calloc(count, size);
    const bool framed = gf_slowpath_enter(gf_slowpath_calloc, bytes, bytes);
    void *block = plain.calloc(count, size);
    end_timed(framed, block, bytes);
    return block;
}

static void *timed_calloc(size_t count, size_t size)
{
    size_t bytes;
    return gf_likely(!__builtin_mul_overflow(count, size, &bytes) && bytes < TIMED_MIN)
               ? plain.calloc(count, size)
               : large_calloc(count, size);
}

static GF_COLD void *large_realloc(void *block, size_t size, size_t before)
{
    const bool framed = gf_slowpath_enter(gf_slowpath_realloc, size, gf_min(before, size));
    void *moved = plain.realloc(block, size);
    /* On success the old block is freed; on failure it is unchanged. */
    end_timed(framed, moved ? moved : size ? block : NULL, moved ? size : before);
    return moved;
}

static void *timed_realloc(void *block, size_t size)
{
    const size_t before = may_be_large(block) ? remove_block(block) : 0;
    return gf_likely(size < TIMED_MIN && !before) ? plain.realloc(block, size)
                                                  : large_realloc(block, size, before);
}

static GF_COLD void large_free(void *block, size_t size)
{
    const bool framed = gf_slowpath_enter(gf_slowpath_free, size, 0);
    plain.free(block);
    if (framed)
        gf_slowpath_leave(NULL);
}

static void timed_free(void *block)
{
    const size_t size = gf_unlikely(may_be_large(block)) ? remove_block(block) : 0;
    if (gf_unlikely(size))
        large_free(block, size);
    else
        plain.free(block);
}

static int timed_posix_memalign(void **ret, size_t alignment, size_t size)
{
    if (gf_likely(size < TIMED_MIN))
        return plain.posix_memalign(ret, alignment, size);
    const bool framed = gf_slowpath_enter(gf_slowpath_memalign, size, 0);
    const int result = plain.posix_memalign(ret, alignment, size);
    end_timed(framed, result ? NULL : *ret, size);
    return result;
}

static void *timed_aligned(void *(*real)(size_t alignment, size_t size), size_t alignment,
                           size_t size)
{
    if (gf_likely(size < TIMED_MIN))
        return real(alignment, size);
    const bool framed = gf_slowpath_enter(gf_slowpath_memalign, size, 0);
    void *block = real(alignment, size);
    end_timed(framed, block, size);
    return block;
}

static void *timed_aligned_alloc(size_t alignment, size_t size)
{
    return timed_aligned(plain.aligned_alloc, alignment, size);
}

static void *timed_memalign(size_t alignment, size_t size)
{
    return timed_aligned(plain.memalign, alignment, size);
}

void gf_timed_passthrough_start(void)
{
    static atomic_flag started = ATOMIC_FLAG_INIT;

    if (atomic_flag_test_and_set_explicit(&started, memory_order_acq_rel))
        return;
    gf_slowpath_foreign();
    /* The fields are not _Atomic: see gf_family_passthrough. */
#define TIMED(name, type, parameters, arguments)                                                   \
    if (plain.name)                                                                                \
        __atomic_store_n(&gf_family_passthrough.name, timed_##name, __ATOMIC_RELEASE);
#define GF_FAMILY_HOT TIMED
#define GF_FAMILY_ALIGNED TIMED
#include "abi/family.def"
}
