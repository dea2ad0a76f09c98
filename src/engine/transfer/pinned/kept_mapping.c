/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pinned/kept_mapping.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "engine/transfer/host_copy.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/pool.h"
#include "engine/transfer/tuning.h"
#include "os/permit.h"

#include <pthread.h>

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx2"))) static bool is_zero_by_32(const char *page)
{
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (size_t i = 0; i < GF_ZERO_PAGE; i += 128) {
        a = _mm256_or_si256(a, _mm256_load_si256((const __m256i *)(page + i)));
        b = _mm256_or_si256(b, _mm256_load_si256((const __m256i *)(page + i + 32)));
        c = _mm256_or_si256(c, _mm256_load_si256((const __m256i *)(page + i + 64)));
        d = _mm256_or_si256(d, _mm256_load_si256((const __m256i *)(page + i + 96)));
    }
    a = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
    return _mm256_testz_si256(a, a);
}

__attribute__((target("avx512f"))) static bool is_zero_by_64(const char *page)
{
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (size_t i = 0; i < GF_ZERO_PAGE; i += 256) {
        a = _mm512_or_si512(a, _mm512_load_si512(page + i));
        b = _mm512_or_si512(b, _mm512_load_si512(page + i + 64));
        c = _mm512_or_si512(c, _mm512_load_si512(page + i + 128));
        d = _mm512_or_si512(d, _mm512_load_si512(page + i + 192));
    }
    a = _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d));
    return _mm512_test_epi64_mask(a, a) == 0;
}

const struct gf_zero_way *gf_zero_ways(size_t *ret_count)
{
    static const struct gf_zero_way ways[] = {{gf_simd_has_avx512, is_zero_by_64},
                                              {gf_simd_has_avx2, is_zero_by_32}};
    *ret_count = GF_ARRAY_LEN(ways);
    return ways;
}
#else
const struct gf_zero_way *gf_zero_ways(size_t *ret_count)
{
    *ret_count = 0;
    return NULL;
}
#endif

static void zero_pages(char *at, size_t bytes)
{
    size_t count, way = 0;
    const struct gf_zero_way *ways = gf_zero_ways(&count);

    while (way < count && !ways[way].can_run())
        way++;
    if (way == count) { /* without wide registers, checking a page takes as long as writing it */
        memset(at, 0, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i += GF_ZERO_PAGE)
        if (!ways[way].is_zero_page(at + i))
            memset(at + i, 0, GF_ZERO_PAGE);
}

void gf_zero(char *at, size_t bytes)
{
    const size_t head = gf_min(-(uintptr_t)at % GF_ZERO_PAGE, bytes);
    const size_t pages = (bytes - head) / GF_ZERO_PAGE * GF_ZERO_PAGE;

    memset(at, 0, head);
    zero_pages(at + head, pages);
    memset(at + head + pages, 0, bytes - head - pages);
}

/* The system call fails if the CPU has no protection keys. mprotect keeps the key of the pages. */
static bool make_writable(void *at, size_t bytes)
{
    return syscall(SYS_pkey_mprotect, at, bytes, PROT_READ | PROT_WRITE, 0) == 0 ||
           mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
}

#ifndef MADV_GUARD_REMOVE /* Linux 6.13; where the kernel refuses it, the range has no guard pages */
#define MADV_GUARD_REMOVE 103
#endif

bool gf_range_reset(void *at, size_t bytes)
{
    if (!gf_permit(gf_permit_reset_range) || !make_writable(at, bytes) || munlock(at, bytes) != 0)
        return false;
    madvise(at, bytes, MADV_GUARD_REMOVE);
    return true;
}

bool gf_range_inherit(void *at, size_t bytes, bool on)
{
    return madvise(at, bytes, on ? MADV_DOFORK : MADV_DONTFORK) == 0;
}

#define KEPT_MOST 32

struct kept {
    struct gf_pinned_mapping mapping;
    uint64_t since_ns;
};

/* Guards the array. An innermost lock: no mapping is changed under it. */
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept kept[KEPT_MOST]; /* the oldest comes first */
static unsigned kept_count;
static _Atomic uint64_t kept_bytes; /* written under the lock */

/* Forks. */

/*
 * The upper half counts forks, the lower half those under way, so that one load reads both. 0: forks
 * are not counted.
 */
static _Atomic uint64_t forks;
#define FORK (UINT64_C(1) << 32)

static void fork_begins(void)
{
    gf_add_relaxed(&forks, FORK + 1);
}

static void fork_ends(void)
{
    gf_sub_relaxed(&forks, 1);
}

/* Adds, because a fork that is already counted may be under way. */
static void watch_forks(void)
{
    if (pthread_atfork(fork_begins, fork_ends, NULL) == 0)
        gf_add_relaxed(&forks, FORK);
}

uint64_t gf_kept_mapping_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return gf_load_relaxed(&forks);
}

bool gf_kept_mapping_forked(uint64_t since)
{
    return !since || since % FORK || since != gf_load_relaxed(&forks);
}

/* The array. The lock is held. */

static struct gf_pinned_mapping remove_kept(unsigned i)
{
    const struct gf_pinned_mapping mapping = kept[i].mapping;
    kept_count--;
    for (; i < kept_count; i++)
        kept[i] = kept[i + 1];
    gf_sub_relaxed(&kept_bytes, mapping.mapped);
    return mapping;
}

static bool has_policy(const struct gf_pinned_mapping *mapping,
                       const struct gf_range_policy *policy)
{
    return mapping->policy.mode == policy->mode &&
           gf_set_equal(&mapping->policy.nodes, &policy->nodes);
}

/* The newest one comes first, because its pages may be in the caches. */
static bool remove_matching(const struct gf_pool *pool, size_t mapped,
                            const struct gf_range_policy *policy, struct gf_pinned_mapping *ret)
{
    for (unsigned i = kept_count; i-- > 0;)
        if (kept[i].mapping.mapped == mapped && kept[i].mapping.pool == pool &&
            has_policy(&kept[i].mapping, policy)) {
            *ret = remove_kept(i);
            return true;
        }
    return false;
}

/* Reuse. */

struct zeroing {
    struct gf_pieces job;
    char *at;
    size_t bytes;
};

static bool zero_piece(struct gf_pieces *job, uint64_t i)
{
    const struct zeroing *z = (struct zeroing *)job;
    const size_t start = (size_t)i * GF_TUNE_ZERO_PIECE;
    gf_zero(z->at + start, gf_min(GF_TUNE_ZERO_PIECE, z->bytes - start));
    return true;
}

/* Zeroes the pages that were touched. */
static void zero_mapping(const struct gf_pinned_mapping *mapping)
{
    struct zeroing z = {.job = {.work = zero_piece, .max_helpers = GF_TUNE_HELPERS_SMALL},
                        .at = mapping->at,
                        .bytes = mapping->bytes};
    const uint64_t pieces = (z.bytes + GF_TUNE_ZERO_PIECE - 1) / GF_TUNE_ZERO_PIECE;
    gf_pool_run(mapping->pool, &z.job, pieces);
}

/* Touches the pages that the earlier buffer did not have. */
static bool extend_mapping(struct gf_pinned_mapping *mapping, size_t bytes)
{
    const size_t had = mapping->bytes;
    mapping->bytes = gf_max(had, gf_round_up(bytes, gf_page_size()));
    return mapping->bytes == had ||
           gf_pinned_mapping_populate(mapping->pool, (char *)mapping->at + had,
                                      mapping->bytes - had, false) == 0;
}

bool gf_kept_mapping_take(struct gf_pool *pool, size_t bytes, const struct gf_range_policy *policy,
                          struct gf_pinned_mapping *ret)
{
    pthread_mutex_lock(&kept_lock);
    const bool found = remove_matching(pool, gf_round_up(bytes, GF_HUGE_PAGE), policy, ret);
    pthread_mutex_unlock(&kept_lock);
    if (!found)
        return false;
    gf_pinned_mapping_count(ret, true);
    ret->forks = gf_kept_mapping_forks();
    zero_mapping(ret);
    /* last, so that no child gets the bytes of the earlier buffer */
    if (extend_mapping(ret, bytes) && gf_range_inherit(ret->at, ret->mapped, true))
        return true;
    gf_pinned_mapping_unmap(ret);
    return false;
}

/* Keeping. */

/*
 * Hides the mapping from later children. A child that has it was forked before, and was counted, so
 * the program's children keep what they inherited. The kernel's lock of the address space orders the
 * count before a fork, and this read of it after the call.
 */
static bool is_inherited(const struct gf_pinned_mapping *mapping)
{
    return !gf_range_inherit(mapping->at, mapping->mapped, false) ||
           gf_kept_mapping_forked(mapping->forks);
}

/* Removes what the program may have written behind its buffer, up to the end of the mapping. */
static bool remove_rest(const struct gf_pinned_mapping *mapping)
{
    const size_t rest = mapping->mapped - mapping->bytes;
    return !rest || madvise((char *)mapping->at + mapping->bytes, rest, MADV_REMOVE) == 0;
}

/*
 * Whether the range is one mapping, of the library's own anonymous shared memory. Otherwise the program
 * has mapped something over the buffer, which is not the library's to keep. True if the kernel cannot
 * describe mappings.
 */
static bool is_own(const struct gf_pinned_mapping *mapping)
{
    static const char own[] = "/dev/zero (deleted)";
    const uintptr_t at = (uintptr_t)mapping->at;
    char name[sizeof(own)];
    struct gf_vma vma;
    const int error = gf_vma_query(at, &vma, name, sizeof(name));

    return error ? error != ENAMETOOLONG
                 : vma.end - at >= mapping->mapped && strcmp(name, own) == 0 &&
                       vma.inode == mapping->inode;
}

/*
 * Moves the mapping, so that nothing is mapped where the buffer was, as after a free by the driver:
 * the program may map memory there (MAP_FIXED). A userfaultfd of the buffer sees the new range only if
 * the program has requested UFFD_FEATURE_EVENT_REMAP. Kernels before 6.17 refuse to move several
 * mappings, and may have unmapped the new range already.
 */
static bool move_mapping(struct gf_pinned_mapping *mapping)
{
    static _Atomic bool refused; /* if true, one range was lost */
    char *const to = gf_load_relaxed(&refused) || !is_own(mapping)
                         ? NULL
                         : gf_map_at_huge_page(mapping->mapped, PROT_NONE, MAP_NORESERVE);

    if (!to)
        return false;
    if (mremap(mapping->at, mapping->mapped, mapping->mapped, MREMAP_MAYMOVE | MREMAP_FIXED, to) ==
        to)
        mapping->at = to;
    else
        gf_store_relaxed(&refused, true);
    return mapping->at == to;
}

/* A later buffer must not get pages of another node again. A node of -1 is not known. */
static bool is_misplaced(const struct gf_pinned_mapping *mapping)
{
    return mapping->node >= 0 && !gf_set_empty(&mapping->policy.nodes) &&
           !gf_set_test(&mapping->policy.nodes, (unsigned)mapping->node);
}

static void unmap_all(const struct gf_pinned_mapping *gone, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        gf_pinned_mapping_count(&gone[i], true);
        gf_pinned_mapping_unmap(&gone[i]);
    }
}

/*
 * Removes those that were kept before this time, and then the oldest ones until at most `most` bytes
 * and `number` mappings are kept. The lock is held. Returns how many it stored in `gone`.
 */
static unsigned remove_oldest(uint64_t before_ns, uint64_t most, unsigned number,
                              struct gf_pinned_mapping *gone)
{
    unsigned count = 0;
    while (kept_count && (kept[0].since_ns < before_ns || kept_count > number ||
                          gf_load_relaxed(&kept_bytes) > most))
        gone[count++] = remove_kept(0);
    return count;
}

bool gf_kept_mapping_put(struct gf_pinned_mapping *mapping, uint64_t most)
{
    struct gf_pinned_mapping gone[KEPT_MOST];

    if (mapping->mapped > GF_TUNE_PIN_KEPT_MOST || mapping->mapped > most || mapping->reserved ||
        is_misplaced(mapping) || is_inherited(mapping) ||
        !gf_range_reset(mapping->at, mapping->mapped) ||
        madvise(mapping->at, mapping->mapped, MADV_DODUMP) != 0 || !remove_rest(mapping) ||
        !move_mapping(mapping))
        return false;
    gf_pinned_mapping_count(mapping, false);
    pthread_mutex_lock(&kept_lock);
    const unsigned count = remove_oldest(0, most - mapping->mapped, KEPT_MOST - 1, gone);
    kept[kept_count++] = (struct kept){.mapping = *mapping, .since_ns = gf_now_ns()};
    gf_add_relaxed(&kept_bytes, mapping->mapped);
    pthread_mutex_unlock(&kept_lock);
    unmap_all(gone, count);
    return true;
}

unsigned gf_kept_mapping_trim(uint64_t before_ns, uint64_t most)
{
    struct gf_pinned_mapping gone[KEPT_MOST];

    if (!gf_load_relaxed(&kept_bytes))
        return 0;
    pthread_mutex_lock(&kept_lock);
    const unsigned count = remove_oldest(before_ns, most, KEPT_MOST, gone);
    pthread_mutex_unlock(&kept_lock);
    unmap_all(gone, count);
    return count;
}

uint64_t gf_kept_mapping_bytes(void)
{
    return gf_load_relaxed(&kept_bytes);
}
