/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/jemalloc_sys.h"

#include "base/atomic.h"
#include "preload/heap/big_table.h"
#include "preload/heap/budget.h"
#include "preload/heap/jemalloc.h"
#include "preload/heap/jemalloc_replaced.h"
#include "preload/heap/mappings.h"
#include "preload/heap/slowpath.h"

/*
 * Monitors intercept only calls of "mmap". With the declaration in libc's header, the call would go
 * to mmap64.
 */
void *gf_libc_mmap(void *address, size_t size, int protection, int flags, int fd,
                   off_t offset) __asm__("mmap");

_Atomic bool gf_heap_untried = true;

static _Atomic bool started;
/*
 * True while monitors do not see this thread's calls: while it creates a mapping for jemalloc, which may
 * unmap superfluous parts of the new mapping, and in the heap's fork handler.
 */
static __thread bool unseen;
/*
 * Number of monitored calls that this thread is in. It exceeds 1 if a monitor's callback makes
 * another monitored call.
 */
static __thread unsigned monitored;

GF_WRAPPER(void *, pages_map, void *address, size_t size, size_t alignment, bool *commit)
{
    const bool before = unseen;

    unseen = true;
    void *const mapped = __real_je_pages_map(address, size, alignment, commit);
    unseen = before;
    return mapped;
}

void gf_monitored_call_start(void)
{
    gf_store_relaxed(&started, true);
}

void gf_monitored_call_hide(bool hide)
{
    unseen = hide;
}

bool gf_monitored_call_now(void)
{
    return monitored > 0;
}

static bool is_unseen(void)
{
    return unseen || !gf_load_relaxed(&started);
}

/*
 * begin_monitored and end_monitored do the same as jemalloc's tsd_pre_reentrancy_raw and
 * tsd_post_reentrancy_raw.
 */
static void begin_monitored(void)
{
    monitored++;
    je_tsd_tls.reentrancy_level++;
    je_tsd_slow_update(&je_tsd_tls);
}

static void end_monitored(void)
{
    je_tsd_tls.reentrancy_level--;
    je_tsd_slow_update(&je_tsd_tls);
    monitored--;
}

/*
 * libfabric does not patch the calls of munmap in the object that it takes for the owner of munmap,
 * and this library exports munmap. So the pages are purged first, by a call that it sees.
 */
static int monitored_munmap(void *address, size_t size)
{
    if (is_unseen())
        return (int)syscall(SYS_munmap, address, size);
    begin_monitored();
    madvise(address, size, MADV_DONTNEED);
    const int result = munmap(address, size);
    end_monitored();
    return result;
}

static int monitored_purge(void *address, size_t size)
{
    if (is_unseen())
        return (int)syscall(SYS_madvise, address, size, MADV_DONTNEED);
    begin_monitored();
    const int result = madvise(address, size, MADV_DONTNEED);
    end_monitored();
    return result;
}

static void *monitored_mmap(void *address, size_t size, int protection, int flags, int fd,
                            off_t offset)
{
    if (is_unseen())
        return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
    begin_monitored();
    void *const mapped = gf_libc_mmap(address, size, protection, flags, fd, offset);
    end_monitored();
    return mapped;
}

void *gf_monitored_mremap(void *address, size_t before, size_t after, void *to)
{
    begin_monitored();
    void *const moved =
        mremap(address, before, after, MREMAP_MAYMOVE | (to ? MREMAP_FIXED : 0), to);
    end_monitored();
    return moved;
}

/*
 * Whether a call of mmap removes pages that the program may have registered. A call without
 * MAP_FIXED removes no page. jemalloc makes pages writable only where the program could not use
 * them before, so such a call removes no page that the program used.
 */
static bool removes_pages(int protection, int flags)
{
    return (flags & MAP_FIXED) && !(protection & PROT_WRITE);
}

/*
 * A mapping of at least GF_MAPPINGS_ASKED_MIN bytes is first tried without MAP_NORESERVE. With MAP_NORESERVE,
 * which jemalloc uses, the kernel grants even more memory than the machine has, so malloc would
 * succeed. The final mapping uses MAP_NORESERVE nevertheless. Otherwise the kernel would count the
 * mapping a second time at a fork.
 *
 * jemalloc rounds the program's request up to a size class, so the request may be a fifth smaller
 * than the mapping. So only four fifths of the mapping are tried, unless the store of big blocks has
 * tried the request itself before, and the kernel refused it.
 */
static bool is_too_large(size_t size, int flags)
{
    return gf_unlikely(size >= GF_MAPPINGS_ASKED_MIN) && (flags & MAP_NORESERVE) &&
           !gf_mappings_fit(gf_load_relaxed(&gf_heap_untried) ? size - size / 5 : size);
}

/* May change errno. The caller restores it, because jemalloc itself sets errno for the program. */
static void *map_pages(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (is_too_large(size, flags))
        return MAP_FAILED;
    if (removes_pages(protection, flags))
        return monitored_mmap(address, size, protection, flags, fd, offset);
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

void *gf_heap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    gf_keep_errno();
    const struct gf_slowpath_mark mark = gf_slowpath_begin(gf_slowpath_map);
    void *const mapped = map_pages(address, size, protection, flags, fd, offset);

    if (mapped != MAP_FAILED) {
        gf_big_forget((uintptr_t)mapped, size);
        gf_mappings_add((uintptr_t)mapped, size);
        gf_mappings_apply_policy(mapped, size);
    }
    gf_slowpath_end(&mark, gf_slowpath_map, size);
    return mapped;
}

int gf_heap_munmap(void *address, size_t size)
{
    gf_keep_errno();
    const struct gf_slowpath_mark mark = gf_slowpath_begin(gf_slowpath_unmap);

    /*
     * The range is removed from the table before the call, because after the call another thread
     * can map the addresses.
     */
    gf_mappings_remove((uintptr_t)address, size);
    const int result = monitored_munmap(address, size);
    if (result == 0)
        gf_add_relaxed(&gf_budget.purged, size);
    else
        gf_mappings_add((uintptr_t)address, size);
    gf_slowpath_end(&mark, gf_slowpath_unmap, size);
    return result;
}

/*
 * jemalloc prints an error if it cannot cut a new mapping, because the process has as many mappings as
 * the kernel allows. The rest then only takes addresses.
 */
int gf_heap_munmap_rest(void *address, size_t size)
{
    gf_heap_munmap(address, size);
    return 0;
}

/*
 * jemalloc calls this function to unmap an extent. If it returns true, jemalloc purges the extent and
 * keeps its addresses. jemalloc's own function prints an error if the kernel refuses to split a mapping,
 * and returns false all the same.
 */
static _Atomic bool locked; /* purged pages would be locked again */

GF_WRAPPER(bool, extent_dalloc_mmap, void *address, size_t size)
{
    return __atomic_load_n(&je_opt_retain, __ATOMIC_RELAXED) ||
           (!gf_load_relaxed(&locked) && gf_mappings_crowded_by_hole((uintptr_t)address, size)) ||
           gf_heap_munmap(address, size) != 0;
}

/*
 * Purges pages that the program has locked, which madvise refuses: maps new ones in their place.
 * After mlockall(MCL_FUTURE) the kernel locks these, too. So from now on, jemalloc unmaps what it
 * purges.
 */
static GF_COLD int purge_locked(void *address, size_t size)
{
    __atomic_store_n(&je_opt_retain, false, __ATOMIC_RELAXED);
    gf_store_relaxed(&locked, true);
    if (monitored_mmap(address, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                       0) == MAP_FAILED)
        return -1;
    gf_mappings_apply_policy(address, size);
    return 0;
}

static int purge(void *address, size_t size)
{
    const int result = monitored_purge(address, size);

    return gf_unlikely(result != 0 && errno == EINVAL) ? purge_locked(address, size) : result;
}

int gf_heap_madvise(void *address, size_t size, int advice)
{
    gf_keep_errno();
    const bool purges = advice == MADV_DONTNEED || advice == MADV_FREE;
    const enum gf_slowpath_part part = purges ? gf_slowpath_purge : gf_slowpath_map;
    const struct gf_slowpath_mark mark = gf_slowpath_begin(part);
    const int result = advice == MADV_DONTNEED ? purge(address, size)
                                               : (int)syscall(SYS_madvise, address, size, advice);

    if (result == 0 && advice == MADV_FREE)
        gf_add_relaxed(&gf_budget.lazily_freed, size);
    if (result == 0 && advice == MADV_DONTNEED)
        gf_add_relaxed(&gf_budget.purged, size);
    gf_slowpath_end(&mark, part, size);
    return result;
}

int gf_heap_mprotect(void *address, size_t size, int protection)
{
    gf_keep_errno();
    return (int)syscall(SYS_mprotect, address, size, protection);
}
