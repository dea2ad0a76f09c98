/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/info.h"

#include "preload/heap/callouts/big.h"
#include "preload/heap/callouts/reclaim.h"
#include "preload/heap/jemalloc/jemalloc.h"

#include <errno.h>
#include <pthread.h>

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

int gf_info_malloc_trim(size_t pad)
{
    const int error = errno;

    (void)pad;
    je_mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    errno = error;
    return gf_reclaim_all();
}

/* Programs rely on the equation arena = uordblks + fordblks. */
struct mallinfo2 gf_info_mallinfo2(void)
{
    const int error = errno;
    struct usage usage;

    read_usage(&usage);
    errno = error;
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
    const int error = errno;
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
    errno = error;
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
    const int error = errno;
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
    errno = error;
}
