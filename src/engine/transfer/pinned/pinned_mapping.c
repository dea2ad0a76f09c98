/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pinned/pinned_mapping.h"

#include "base/atomic.h"
#include "engine/transfer/huge_pool.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/pool.h"
#include "engine/transfer/tuning.h"
#include "host/mempolicy.h"
#include "os/headroom.h"
#include "os/procfs.h"

static size_t divide_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit;
}

uint64_t gf_units_count(const struct gf_units *units)
{
    return (uint64_t)divide_up(units->bytes, units->mapping) *
           divide_up(gf_min(units->mapping, units->bytes), units->unit);
}

size_t gf_units_get(const struct gf_units *units, uint64_t i, size_t *ret_start)
{
    const size_t mappings = divide_up(units->bytes, units->mapping);
    const size_t within = (size_t)i / mappings * units->unit;

    *ret_start = (size_t)i % mappings * units->mapping + within;
    return *ret_start >= units->bytes
               ? 0
               : gf_min(units->unit, gf_min(units->mapping - within, units->bytes - *ret_start));
}

bool gf_touching_fits(size_t bytes, const struct gf_range_policy *policy)
{
    static const struct gf_range_policy none;
    struct gf_headroom headroom;
    gf_range_policy_headroom(policy ? policy : &none, &headroom);
    if (headroom.bytes == GF_HEADROOM_UNKNOWN)
        return true;
    const uint64_t reserve = GF_TUNE_PIN_RESERVE + headroom.bytes / 8;
    return headroom.bytes > reserve && bytes <= headroom.bytes - reserve;
}

/*
 * Several threads populate the pages of a range, in steps between which they read the headroom again.
 */
struct touching {
    struct gf_pieces job;
    struct gf_pool *pool;
    struct gf_units units;
    char *at;
    /*
     * the policy of the library's fresh memory, which may be touched by stores; NULL: the program's
     * memory
     */
    const struct gf_range_policy *policy;
    bool reserved; /* reserved huge pages, which no headroom limits */
    _Atomic uint64_t touched;
    _Atomic int error;
};

static int touch_pages(char *at, size_t bytes, bool own)
{
    while (madvise(at, bytes, MADV_POPULATE_WRITE) != 0) {
        if (errno == EAGAIN || errno == EINTR)
            continue;
        if (errno != EINVAL || !own)
            return -errno;
        for (size_t i = 0; i < bytes; i += gf_page_size()) /* kernels before 5.14 */
            *(volatile char *)(at + i) = 0;
        break;
    }
    return 0;
}

/*
 * Other processes may take memory while pages are touched, so the headroom is read again after each
 * step. If the policy only prefers a node, pages go elsewhere once the node is full, so the limit of
 * all nodes counts.
 */
static bool may_touch(struct touching *t, size_t bytes)
{
    const uint64_t before = gf_add_relaxed(&t->touched, bytes);
    const bool binds = t->policy && gf_mempolicy_binds(t->policy->mode);
    return t->reserved || before / GF_TUNE_TOUCH_STEP == (before + bytes) / GF_TUNE_TOUCH_STEP ||
           gf_touching_fits(GF_TUNE_TOUCH_STEP, binds ? t->policy : NULL);
}

static bool touch_unit(struct gf_pieces *job, uint64_t i)
{
    struct touching *t = (struct touching *)job;
    size_t start, bytes = gf_units_get(&t->units, i, &start);

    for (size_t step; bytes; start += step, bytes -= step) {
        step = gf_min(GF_TUNE_TOUCH_STEP, bytes);
        int error = gf_load_relaxed(&t->error);
        if (!error && !may_touch(t, step))
            error = -ENOMEM;
        if (!error)
            error = touch_pages(t->at + start, step, t->policy != NULL);
        if (error) {
            gf_store_relaxed(&t->error, error);
            return false;
        }
    }
    return true;
}

/* Touches all pages. Returns 0 or -errno. */
static int touch_all(struct touching *t)
{
    const uint64_t units = gf_units_count(&t->units);

    t->job.work = touch_unit;
    /* in a child that a handler forked within this call, no unit has an error */
    if (gf_pool_run(t->pool, &t->job, units) != GF_PIECE_NONE && !gf_load_relaxed(&t->error))
        return -ECHILD;
    return gf_load_relaxed(&t->error);
}

static enum gf_probed find_huge(void)
{
    struct gf_thp thp;
    gf_thp_read_shared("", &thp);
    return gf_probed_as(thp.on);
}

bool gf_pinned_mapping_is_huge(void)
{
    static _Atomic unsigned char known;
    return gf_probe(&known, find_huge);
}

int gf_pinned_mapping_populate(struct gf_pool *pool, void *at, size_t bytes, bool reserved)
{
    const uintptr_t start = (uintptr_t)at & ~(gf_page_size() - 1);
    const uintptr_t end = gf_round_up((uintptr_t)at + bytes, gf_page_size());
    struct touching t = {.pool = pool,
                         .units = {end - start, end - start, GF_HUGE_PAGE * 4},
                         .at = (char *)start,
                         .reserved = reserved};
    return touch_all(&t);
}

/* Mapping. */

static _Atomic unsigned live_parts; /* number of parts of all ranges that a child inherits */

/*
 * One mapping for two threads, which then seldom wait for each other. The driver's own buffer is
 * one mapping. With more mappings, each fork of the process would take up to 2 us longer for each
 * of them.
 */
static size_t part_size(const struct gf_pool *pool, size_t bytes)
{
    const bool many = gf_load_relaxed(&live_parts) > GF_TUNE_PIN_MAPPINGS;
    const size_t least = many ? GF_TUNE_PIN_MAPPING_MANY : GF_TUNE_PIN_MAPPING_LEAST;
    const unsigned parts = gf_max(gf_pool_threads(pool) / 2, 1u);
    return gf_round_up(gf_max(bytes / parts, least), GF_HUGE_PAGE);
}

static struct gf_units units_of(const struct gf_pinned_mapping *mapping)
{
    const size_t share = mapping->bytes / ((size_t)4 * gf_pool_threads(mapping->pool));
    const size_t unit = gf_max(gf_min(share, GF_TUNE_TOUCH_UNIT), (size_t)1);
    return (struct gf_units){mapping->bytes, mapping->part, gf_round_up(unit, GF_HUGE_PAGE)};
}

static int map_parts(const struct gf_pinned_mapping *mapping)
{
    char *at = mapping->at;
    for (size_t i = 0; i < mapping->mapped; i += mapping->part)
        if (mmap(at + i, gf_min(mapping->part, mapping->mapped - i), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            return -errno;
    return 0;
}

/* One mapping, because threads that fill one inode of huge pages seldom wait for each other. */
static bool make_reserved(struct gf_pinned_mapping *mapping, const struct gf_range_policy *policy)
{
    mapping->at = gf_huge_pool_map(mapping->mapped, policy);
    if (!mapping->at)
        return false;
    mapping->reserved = true;
    mapping->part = mapping->mapped;
    mapping->parts = 1;
    gf_add_relaxed(&live_parts, 1);
    struct touching t = {
        .pool = mapping->pool, .units = units_of(mapping), .at = mapping->at, .reserved = true};
    const int error = touch_all(&t);
    if (gf_huge_pool_accept(mapping->at, mapping->bytes, policy, -error))
        return true;
    gf_pinned_mapping_unmap(mapping);
    mapping->reserved = false;
    return false;
}

static int make_ordinary(struct gf_pinned_mapping *mapping, const struct gf_range_policy *policy,
                         const char **ret_call)
{
    *ret_call = "mmap";
    mapping->part = part_size(mapping->pool, mapping->mapped);
    mapping->parts = (unsigned)divide_up(mapping->mapped, mapping->part);
    mapping->at = gf_map_at_huge_page(mapping->mapped, PROT_NONE, MAP_NORESERVE);
    if (!mapping->at)
        return -errno;
    gf_add_relaxed(&live_parts, mapping->parts);
    int error = map_parts(mapping);
    if (!error) {
        madvise(mapping->at, mapping->mapped, MADV_HUGEPAGE);
        gf_range_policy_apply(policy, mapping->at, mapping->mapped);
        struct touching t = {
            .pool = mapping->pool, .units = units_of(mapping), .at = mapping->at, .policy = policy};
        error = touch_all(&t);
        *ret_call = error == -ENOMEM || error == -ECHILD ? NULL : "madvise(MADV_POPULATE_WRITE)";
    }
    if (error)
        gf_pinned_mapping_unmap(mapping);
    return error;
}

int gf_pinned_mapping_make(struct gf_pool *pool, size_t bytes, const struct gf_range_policy *policy,
                           struct gf_pinned_mapping *ret, const char **ret_call)
{
    struct gf_pinned_mapping mapping = {.bytes = gf_round_up(bytes, gf_page_size()),
                                        .mapped = gf_round_up(bytes, GF_HUGE_PAGE),
                                        .pool = pool,
                                        .policy = *policy};

    const bool reserved = gf_huge_pool_is_on();

    *ret_call = NULL;
    if (!reserved || !make_reserved(&mapping, policy)) {
        if (reserved && !gf_touching_fits(bytes, policy))
            return -ENOMEM;
        const int error = make_ordinary(&mapping, policy, ret_call);
        if (error)
            return error;
    }
    struct gf_vma vma;
    mapping.inode = gf_vma_query((uintptr_t)mapping.at, &vma, NULL, 0) == 0 ? vma.inode : 0;
    mapping.node = gf_range_node_read(mapping.at, mapping.bytes);
    *ret = mapping;
    return 0;
}

void gf_pinned_mapping_count(const struct gf_pinned_mapping *mapping, bool used)
{
    if (used)
        gf_add_relaxed(&live_parts, mapping->parts);
    else
        gf_sub_relaxed(&live_parts, mapping->parts);
}

/* Unmapping. */

struct unmapping {
    struct gf_pieces job;
    struct gf_units units;
    const struct gf_pinned_mapping *mapping;
};

static bool empty_unit(struct gf_pieces *job, uint64_t i)
{
    const struct unmapping *u = (struct unmapping *)job;
    size_t start;
    const size_t bytes = gf_units_get(&u->units, i, &start);
    if (bytes)
        madvise((char *)u->mapping->at + start, bytes, MADV_DONTNEED);
    return true;
}

static bool unmap_part(struct gf_pieces *job, uint64_t i)
{
    const struct gf_pinned_mapping *mapping = ((struct unmapping *)job)->mapping;
    const size_t start = (size_t)i * mapping->part;
    munmap((char *)mapping->at + start, gf_min(mapping->part, mapping->mapped - start));
    return true;
}

/*
 * Several threads first remove the pages from this process's page tables. Then munmap holds the
 * lock of the address space only for a moment, and frees the pages afterwards. A child that has the
 * pages mapped keeps them.
 */
void gf_pinned_mapping_unmap(const struct gf_pinned_mapping *mapping)
{
    struct unmapping u = {.job.work = empty_unit, .units = units_of(mapping), .mapping = mapping};
    gf_pool_run(mapping->pool, &u.job, gf_units_count(&u.units));
    u.job = (struct gf_pieces){.work = unmap_part};
    gf_pool_run(mapping->pool, &u.job, mapping->parts);
    gf_sub_relaxed(&live_parts, mapping->parts);
}
