/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/extent.h"

#include "host/headroom.h"
#include "host/policy.h"
#include "host/thp.h"
#include "transfer/plant.h"
#include "transfer/pool.h"
#include "transfer/tuning.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HUGE GF_MIB(2)
#define SAMPLE 32

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static size_t page_size(void)
{
    static size_t size; /* the same from every thread */
    size_t known = __atomic_load_n(&size, __ATOMIC_RELAXED);
    if (!known) {
        known = (size_t)sysconf(_SC_PAGESIZE);
        __atomic_store_n(&size, known, __ATOMIC_RELAXED);
    }
    return known;
}

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

bool gf_extent_fits(size_t bytes, int node)
{
    struct gf_headroom headroom;
    if (GF_PLANTED(ignores_limits))
        return true;
    gf_headroom_read("", node, &headroom);
    if (headroom.bytes == GF_HEADROOM_UNKNOWN)
        return true;
    const uint64_t kept = GF_TUNE_PIN_RESERVE + headroom.bytes / 8;
    return headroom.bytes > kept && bytes <= headroom.bytes - kept;
}

static bool reads_huge(void)
{
    struct gf_thp thp;
    gf_thp_read_shared("", &thp);
    return thp.on;
}

bool gf_extent_is_huge(void)
{
    static int known; /* 1: no, 2: yes */
    if (!__atomic_load_n(&known, __ATOMIC_RELAXED))
        __atomic_store_n(&known, reads_huge() ? 2 : 1, __ATOMIC_RELAXED);
    return __atomic_load_n(&known, __ATOMIC_RELAXED) == 2;
}

/*
 * Work on a range by several threads, cut into parts. Parts go round its mappings: threads that fill
 * one inode at the same time wait for each other.
 */
struct parts {
    size_t bytes, mapping, unit;
};

static size_t how_many(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit;
}

static uint64_t parts_count(const struct parts *parts)
{
    return how_many(parts->bytes, parts->mapping) *
           how_many(gf_min(parts->mapping, parts->bytes), parts->unit);
}

/* The bytes of one, perhaps none, from *ret_start on. */
static size_t part(const struct parts *parts, uint64_t i, size_t *ret_start)
{
    const size_t mappings = how_many(parts->bytes, parts->mapping);
    const size_t within = (size_t)i / mappings * parts->unit;
    const size_t start = (size_t)i % mappings * parts->mapping + within;

    *ret_start = start;
    return start >= parts->bytes
               ? 0
               : gf_min(parts->unit, gf_min(parts->mapping - within, parts->bytes - start));
}

/* Touching. */

struct touching {
    struct gf_job job;
    struct parts parts;
    char *at;
    bool own;         /* fresh memory of ours: may be touched by a store too */
    uint64_t touched; /* atomic */
    int error;        /* atomic: the first */
};

static int touch(char *at, size_t bytes, bool own)
{
    while (madvise(at, bytes, MADV_POPULATE_WRITE) != 0) {
        if (errno == EAGAIN || errno == EINTR)
            continue;
        if (errno != EINVAL || !own)
            return -errno;
        for (size_t i = 0; i < bytes; i += page_size()) /* a kernel before 5.14 */
            *(volatile char *)(at + i) = 0;
        break;
    }
    return 0;
}

/* Others take memory meanwhile: looks again after each step. */
static bool may_go_on(struct touching *t, size_t bytes)
{
    const uint64_t before = __atomic_fetch_add(&t->touched, bytes, __ATOMIC_RELAXED);
    return before / GF_TUNE_TOUCH_STEP == (before + bytes) / GF_TUNE_TOUCH_STEP ||
           gf_extent_fits(GF_TUNE_TOUCH_STEP, -1);
}

static bool touch_part(struct gf_job *job, uint64_t i)
{
    struct touching *t = (struct touching *)job;
    size_t start, bytes = part(&t->parts, i, &start);

    for (size_t step; bytes; start += step, bytes -= step) {
        step = gf_min(GF_TUNE_TOUCH_STEP, bytes);
        int error = __atomic_load_n(&t->error, __ATOMIC_RELAXED);
        if (!error && !may_go_on(t, step))
            error = -ENOMEM;
        if (!error)
            error = touch(t->at + start, step, t->own);
        if (error) {
            __atomic_store_n(&t->error, error, __ATOMIC_RELAXED);
            return false;
        }
    }
    return true;
}

static void run(struct gf_pool *pool, struct gf_job *job, uint64_t pieces)
{
    if (pool)
        gf_pool_run(pool, job, pieces);
    else
        for (uint64_t i = 0; i < pieces && job->work(job, i); i++)
            ;
}

static int touch_all(struct gf_pool *pool, char *at, const struct parts *parts, bool own)
{
    struct touching t = {.job.work = touch_part, .parts = *parts, .at = at, .own = own};
    run(pool, &t.job, parts_count(parts));
    return t.error;
}

int gf_extent_populate(struct gf_pool *pool, void *at, size_t bytes)
{
    const uintptr_t start = (uintptr_t)at & ~(page_size() - 1);
    const uintptr_t end = round_up((uintptr_t)at + bytes, page_size());
    const struct parts parts = {end - start, end - start, HUGE * 4};
    return touch_all(pool, (char *)start, &parts, false);
}

/* Mapping. */

static unsigned mapped; /* atomic: mappings of ours that live */

static unsigned threads_of(const struct gf_pool *pool)
{
    return pool ? gf_pool_threads(pool) : 1;
}

/*
 * Three threads in one hardly wait for each other, and each costs every fork of the process the copy of a
 * mapping, up to 2 us, where the driver's own buffer is one.
 */
static size_t mapping_size(const struct gf_pool *pool, size_t bytes)
{
    const bool many = __atomic_load_n(&mapped, __ATOMIC_RELAXED) > GF_TUNE_PIN_MAPPINGS;
    const size_t least = many ? GF_TUNE_PIN_MAPPING_MANY : GF_TUNE_PIN_MAPPING_LEAST;
    return round_up(gf_max(how_many(bytes, gf_max(threads_of(pool) / 3, 1u)), least), HUGE);
}

static struct parts parts_of(const struct gf_extent *extent)
{
    const size_t unit = how_many(extent->bytes, 4 * threads_of(extent->pool));
    return (struct parts){extent->bytes, extent->piece, round_up(unit, HUGE)};
}

/* Address space for the range, beginning on a huge page. */
static char *reserve(size_t bytes)
{
    const size_t wanted = bytes + HUGE - page_size();
    char *all = mmap(NULL, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    char *at = (char *)round_up((uintptr_t)all, HUGE);
    if (at > all)
        munmap(all, (size_t)(at - all));
    if (at + bytes < all + wanted)
        munmap(at + bytes, (size_t)(all + wanted - at) - bytes);
    return at;
}

static int fill(const struct gf_extent *extent, size_t piece)
{
    char *at = extent->at;
    for (size_t i = 0; i < extent->mapped; i += piece)
        if (mmap(at + i, gf_min(piece, extent->mapped - i), PROT_READ | PROT_WRITE,
                 (GF_PLANTED(maps_private) ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0) == MAP_FAILED)
            return -errno;
    return 0;
}

static void prefer(const struct gf_extent *extent, int node)
{
    struct gf_nodes nodes = {0};
    if (node < 0 || node >= GF_NODES_MAX)
        return;
    gf_set_add(&nodes, (unsigned)node);
    gf_policy_set_range(extent->at, extent->mapped, GF_MPOL_PREFERRED, &nodes);
}

int gf_extent_node(const void *at, size_t bytes)
{
    void *page[SAMPLE];
    int status[SAMPLE];
    for (size_t i = 0; i < SAMPLE; i++)
        page[i] = (void *)((uintptr_t)at + bytes / SAMPLE * i / page_size() * page_size());
    if (syscall(SYS_move_pages, 0, (unsigned long)SAMPLE, page, NULL, status, 0) != 0)
        return -1;
    for (size_t i = 1; i < SAMPLE; i++)
        if (status[i] != status[0])
            return -1;
    return gf_max(status[0], -1);
}

int gf_extent_make(struct gf_pool *pool, size_t bytes, int node, struct gf_extent *ret,
                   const char **ret_call)
{
    const size_t mapped_bytes = round_up(bytes, HUGE);
    const size_t piece = mapping_size(pool, mapped_bytes);
    struct gf_extent extent = {.at = reserve(mapped_bytes),
                               .bytes = round_up(bytes, page_size()),
                               .mapped = mapped_bytes,
                               .piece = piece,
                               .pool = pool};

    *ret_call = "mmap";
    if (!extent.at)
        return -errno;
    extent.mappings = (unsigned)how_many(mapped_bytes, piece);
    __atomic_add_fetch(&mapped, extent.mappings, __ATOMIC_RELAXED);
    int error = fill(&extent, piece);
    if (!error) {
        madvise(extent.at, mapped_bytes, MADV_HUGEPAGE);
        prefer(&extent, node);
        const struct parts parts = parts_of(&extent);
        error = touch_all(pool, extent.at, &parts, true);
        *ret_call = error == -ENOMEM ? NULL : "madvise(MADV_POPULATE_WRITE)";
    }
    if (error) {
        gf_extent_drop(&extent);
        return error;
    }
    extent.node = gf_extent_node(extent.at, extent.bytes);
    *ret = extent;
    return 0;
}

struct dropping {
    struct gf_job job;
    struct parts parts;
    const struct gf_extent *extent;
};

static bool empty_part(struct gf_job *job, uint64_t i)
{
    const struct dropping *d = (struct dropping *)job;
    size_t start;
    const size_t bytes = part(&d->parts, i, &start);
    if (bytes)
        madvise((char *)d->extent->at + start, bytes, MADV_DONTNEED);
    return true;
}

static bool unmap_piece(struct gf_job *job, uint64_t piece)
{
    const struct gf_extent *extent = ((struct dropping *)job)->extent;
    const size_t start = (size_t)piece * extent->piece;
    munmap((char *)extent->at + start, gf_min(extent->piece, extent->mapped - start));
    return true;
}

/*
 * Its pages leave this process's tables first, which several threads can do at once; what is left
 * of unmapping has the address space to itself for a moment only, and the pages themselves are
 * freed behind that. A child that has them mapped keeps them.
 */
void gf_extent_drop(const struct gf_extent *extent)
{
    struct dropping d = {
        .job.work = empty_part, .parts = parts_of(extent), .extent = extent};
    if (extent->pool)
        run(extent->pool, &d.job, parts_count(&d.parts));
    d.job = (struct gf_job){.work = unmap_piece};
    run(extent->pool, &d.job, extent->mappings);
    __atomic_sub_fetch(&mapped, extent->mappings, __ATOMIC_RELAXED);
}
