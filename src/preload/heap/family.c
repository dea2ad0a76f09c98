/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/family.h"

#include "preload/heap/reclaim.h"

#include <gnu/libc-version.h>
#include <pthread.h>
#include <sys/auxv.h>

struct usage {
    size_t allocated, resident, mapped, active;
};

static size_t read_size(const char *name)
{
    size_t value = 0, size = sizeof(value);
    return je_mallctl(name, &value, &size, NULL, 0) == 0 ? value : 0;
}

static void read_usage(struct usage *ret)
{
    uint64_t epoch = 1;

    je_mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
    ret->allocated = read_size("stats.allocated");
    ret->resident = gf_max(read_size("stats.resident"), ret->allocated);
    ret->mapped = read_size("stats.mapped");
    ret->active = read_size("stats.active");
    const size_t live = gf_big_live(), kept = (size_t)gf_load_relaxed(&gf_budget.pool);
    ret->allocated += live;
    ret->active += live;
    ret->resident += live + kept;
    ret->mapped += live + kept;
}

/* Purges all free pages. Returns 1 if any page was purged. pad is ignored. */
static int jemalloc_malloc_trim(size_t pad)
{
    gf_keep_errno();

    (void)pad;
    je_mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    return gf_reclaim_all();
}

/* Programs rely on the equation arena = uordblks + fordblks. */
struct mallinfo2 gf_info_mallinfo2(void)
{
    gf_keep_errno();
    struct usage usage;

    read_usage(&usage);
    return (struct mallinfo2){
        .arena = usage.resident,
        .uordblks = usage.allocated,
        .fordblks = usage.resident - usage.allocated,
    };
}

struct mallinfo gf_info_mallinfo(void)
{
    const struct mallinfo2 wide = gf_info_mallinfo2();
    return (struct mallinfo){
        .arena = (int)wide.arena,
        .uordblks = (int)wide.uordblks,
        .fordblks = (int)wide.fordblks,
    };
}

/* Accepts and refuses the same values as glibc, but no parameter has an effect on jemalloc. */
int gf_info_mallopt(int parameter, int value)
{
    return parameter != M_MXFAST || (value >= 0 && (size_t)value <= 80 * sizeof(size_t) / 4);
}

/* Like glibc's function, this is not a cancellation point. */
void gf_info_malloc_stats(void)
{
    gf_keep_errno();
    struct usage usage;
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    read_usage(&usage);
    fprintf(stderr,
            "Arena 0:\nsystem bytes     = %10zu\nin use bytes     = %10zu\n"
            "Total (incl. mmap):\nsystem bytes     = %10zu\nin use bytes     = %10zu\n"
            "max mmap regions = %10u\nmax mmap bytes   = %10lu\n",
            usage.resident, usage.allocated, usage.resident, usage.allocated, 0u, 0ul);
    pthread_setcancelstate(cancel, NULL);
}

int gf_info_malloc_info(int options, FILE *stream)
{
    struct usage usage;

    if (options != 0)
        return EINVAL;
    read_usage(&usage);
    fprintf(stream,
            "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n</sizes>\n"
            "<system type=\"current\" size=\"%zu\"/>\n<system type=\"max\" size=\"%zu\"/>\n"
            "<aspace type=\"total\" size=\"%zu\"/>\n<aspace type=\"mprotect\" size=\"%zu\"/>\n"
            "</heap>\n"
            "<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n"
            "<system type=\"current\" size=\"%zu\"/>\n<system type=\"max\" size=\"%zu\"/>\n"
            "<aspace type=\"total\" size=\"%zu\"/>\n<aspace type=\"mprotect\" size=\"%zu\"/>\n"
            "</malloc>\n",
            usage.resident, usage.resident, usage.mapped, usage.mapped,
            usage.resident - usage.allocated, usage.resident, usage.resident, usage.mapped,
            usage.mapped);
    return 0;
}

static uint64_t read_pages(const char *name)
{
    return (uint64_t)read_size(name) * read_size("arenas.page");
}

void gf_info_heap(struct gf_heap_stats *ret)
{
    gf_keep_errno();
    struct usage usage;
    unsigned arenas = 0;
    size_t size = sizeof(arenas);

    read_usage(&usage);
    je_mallctl("arenas.narenas", &arenas, &size, NULL, 0);
    *ret = (struct gf_heap_stats){
        .mapped = usage.mapped,
        .active = usage.active,
        .allocated = usage.allocated,
        .dirty = read_pages("stats.arenas." GF_ARENAS_ALL ".pdirty") +
                 (uint64_t)gf_load_relaxed(&gf_budget.pool),
        .lazily_freed = read_pages("stats.arenas." GF_ARENAS_ALL ".pmuzzy"),
        .cached = read_size("stats.arenas." GF_ARENAS_ALL ".tcache_bytes"),
        .arenas = arenas,
    };
}

/* The following functions of jemalloc behave as those of glibc do. */
#define jemalloc_malloc je_malloc
#define jemalloc_calloc je_calloc
#define jemalloc_realloc gf_jemalloc_realloc
#define jemalloc_free gf_jemalloc_free
#define jemalloc_malloc_usable_size gf_jemalloc_usable_size

/* alignment: a power of two. */
static void *aligned(size_t alignment, size_t size)
{
    void *const block = size >= GF_BIG_MIN ? gf_big_aligned(alignment, size) : NULL;

    return block ? block : je_aligned_alloc(alignment, size);
}

/* glibc rounds the alignment up to a power of two. jemalloc would return NULL without errno. */
static void *jemalloc_memalign(size_t alignment, size_t size)
{
    const size_t highest = (SIZE_MAX >> 1) + 1;
    size_t power = 16;

    if (alignment > highest) {
        errno = EINVAL;
        return NULL;
    }
    while (power < alignment)
        power <<= 1;
    return aligned(power, size);
}

/*
 * Sets errno if memory is short, as glibc does, although POSIX does not require that. If the call
 * fails, *ret is unchanged.
 */
static int jemalloc_posix_memalign(void **ret, size_t alignment, size_t size)
{
    const bool valid = alignment >= sizeof(void *) && !(alignment & (alignment - 1));
    void *const block = valid && size >= GF_BIG_MIN ? gf_big_aligned(alignment, size) : NULL;

    if (block) {
        *ret = block;
        return 0;
    }
    const int result = je_posix_memalign(ret, alignment, size);

    if (gf_unlikely(result == ENOMEM))
        errno = ENOMEM;
    return result;
}

/*
 * Whether this glibc's aligned_alloc accepts any alignment. Before 2.38, aligned_alloc is the same
 * as memalign. Since then it refuses alignments that are not a power of two.
 */
static bool takes_any_alignment(void)
{
    return strverscmp(gnu_get_libc_version(), "2.38") < 0;
}

static void *jemalloc_aligned_alloc(size_t alignment, size_t size)
{
    const bool valid = alignment && !(alignment & (alignment - 1));

    if (gf_unlikely(!valid))
        return takes_any_alignment() ? jemalloc_memalign(alignment, size)
                                     : je_aligned_alloc(alignment, size);
    return aligned(alignment, size);
}

static void *jemalloc_valloc(size_t size)
{
    return aligned(getauxval(AT_PAGESZ), size);
}

static void *jemalloc_pvalloc(size_t size)
{
    const size_t page = getauxval(AT_PAGESZ);
    size_t rounded;

    if (__builtin_add_overflow(size, page - 1, &rounded)) {
        errno = ENOMEM;
        return NULL;
    }
    return aligned(page, rounded & ~(page - 1));
}

const struct gf_family gf_family_jemalloc = {
#define GF_FAMILY_INFO(name, type, parameters, arguments) .name = gf_info_##name,
#define GF_FAMILY(name, type, parameters, arguments) .name = jemalloc_##name,
#include "abi/family.def"
};
