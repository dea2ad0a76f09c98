/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/callouts/big_map.h"

#include "os/permit.h"
#include "preload/heap/callouts/jemalloc_sys.h"
#include "preload/heap/callouts/monitored_call.h"
#include "preload/heap/pages/huge.h"
#include "preload/heap/pages/mappings.h"
#include "preload/heap/pages/presence.h"
#include "preload/heap/timing/slowpath.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* The kernel grants a mapping with MAP_NORESERVE even if it exceeds all memory. */
static bool fits(size_t size)
{
    return gf_likely(size < GF_MAPPINGS_ASKED_MIN) || gf_mappings_fit(size);
}

/* Returns 0 if the kernel refuses. */
static uintptr_t map(uintptr_t at, size_t size, int flags)
{
    const long mapped = syscall(SYS_mmap, at, size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0L);

    return mapped == -1 ? 0 : (uintptr_t)mapped;
}

void gf_big_unmap_new(uintptr_t start, size_t size)
{
    syscall(SYS_munmap, start, size);
}

/* Maps more than needed, and unmaps the rest. */
static uintptr_t map_and_cut(size_t size, size_t alignment)
{
    const uintptr_t first = map(0, size + alignment, 0);
    const uintptr_t start = (first + alignment - 1) & ~(alignment - 1);

    if (!first)
        return 0;
    if (start > first)
        gf_big_unmap_new(first, start - first);
    if (start < first + alignment)
        gf_big_unmap_new(start + size, first + alignment - start);
    return start;
}

/*
 * If the kernel chooses an unaligned address, the next multiple below is usually free, because the
 * kernel maps downwards.
 */
static uintptr_t map_aligned(size_t size, size_t alignment)
{
    uintptr_t mapped = map(0, size, 0);
    const uintptr_t below = mapped & ~(alignment - 1);

    if (mapped == below)
        return mapped;
    gf_big_unmap_new(mapped, size);
    mapped = map(below, size, MAP_FIXED_NOREPLACE);
    if (mapped == below)
        return below;
    if (mapped)
        gf_big_unmap_new(mapped, size);
    return map_and_cut(size, alignment);
}

uintptr_t gf_big_map(size_t size, size_t alignment)
{
    const struct gf_slowpath_mark mark = gf_slowpath_begin(gf_slowpath_map);
    const uintptr_t start = fits(size) ? map_aligned(size, alignment) : 0;

    gf_slowpath_end(&mark, gf_slowpath_map, size);
    return start;
}

void gf_big_mapped(uintptr_t start, size_t size)
{
    const struct gf_slowpath_mark mark = gf_slowpath_begin(gf_slowpath_map);

    gf_mappings_add(start, size);
    gf_mappings_apply_policy((void *)start, size);
    gf_huge_mapped((void *)start, size);
    gf_slowpath_end(&mark, gf_slowpath_map, 0);
}

/* The new pages have the memory policy of the old ones, because they are in the same mapping. */
static void grown(uintptr_t start, size_t before, size_t after)
{
    gf_mappings_add(start, after);
    gf_huge_grown((void *)start, before, after);
}

int gf_big_grow(uintptr_t start, size_t before, size_t after)
{
    const struct gf_slowpath_mark mark = gf_slowpath_begin(gf_slowpath_map);
    int error = ENOMEM;

    if (fits(after - before)) {
        error = syscall(SYS_mremap, start, before, after, 0, 0UL) == -1 ? errno : 0;
        if (error == 0)
            grown(start, before, after);
    }
    gf_slowpath_end(&mark, gf_slowpath_map, error ? 0 : after - before);
    return error;
}

bool gf_big_move(uintptr_t start, size_t before, uintptr_t to, size_t after)
{
    const struct gf_slowpath_mark mark = gf_slowpath_begin(gf_slowpath_map);

    /* Removed first, because after the call another thread can map the old addresses. */
    gf_mappings_remove(start, before);
    const bool moved = gf_monitored_mremap((void *)start, before, after, (void *)to) != MAP_FAILED;
    if (moved)
        grown(to, before, after);
    else
        gf_mappings_add(start, before);
    gf_slowpath_end(&mark, gf_slowpath_map, before);
    return moved;
}

/* For private memory, msync has no other effect than this check. */
static bool is_locked(uintptr_t start, size_t size)
{
    return gf_presence_allowed() && gf_permit(gf_permit_msync) &&
           syscall(SYS_msync, start, size, MS_INVALIDATE) == -1 && errno == EBUSY;
}

bool gf_big_renew(uintptr_t start, size_t size)
{
    if (is_locked(start, size) || syscall(SYS_mprotect, start, size, PROT_READ | PROT_WRITE) != 0)
        return false;
    syscall(SYS_madvise, start, size, MADV_DOFORK);
    syscall(SYS_madvise, start, size, MADV_KEEPONFORK); /* Linux 4.14 */
    return true;
}

void gf_big_unmap(uintptr_t start, size_t size)
{
    /* munmap fails if it splits a mapping and the process has as many as the kernel allows. */
    if (gf_heap_munmap((void *)start, size) != 0)
        gf_heap_madvise((void *)start, size, MADV_DONTNEED);
}
