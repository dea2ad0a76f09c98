/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/reach.h"

#include "transfer/plant.h"
#include "transfer/procmap_query.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static uintptr_t page_mask(void)
{
    static uintptr_t mask; /* the same from every thread */
    uintptr_t known = __atomic_load_n(&mask, __ATOMIC_RELAXED);
    if (!known) {
        known = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
        __atomic_store_n(&mask, known, __ATOMIC_RELAXED);
    }
    return known;
}

bool gf_reach_pages(const void *at, size_t bytes, bool write)
{
    const uintptr_t mask = page_mask();
    const uintptr_t start = (uintptr_t)at & ~mask;
    const uintptr_t end = ((uintptr_t)at + bytes + mask) & ~mask;
    const int advice = write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    return GF_PLANTED(touches_blindly) || madvise((void *)start, end - start, advice) == 0;
}

bool gf_reach_is_possible(void)
{
    static unsigned known; /* 1 no, 2 yes */
    unsigned answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!answer) {
        char *page = mmap(NULL, page_mask() + 1, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            return false;
        answer = gf_reach_pages(page, 1, false) && gf_reach_pages(page, 1, true) ? 2 : 1;
        munmap(page, page_mask() + 1);
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer == 2;
}

/*
 * By their numbers: copies are no cancellation points, and nobody's hooks see them. The descriptor is closed at
 * once: a child that is forked meanwhile inherits it, and has it for ever.
 */
static int ask(struct procmap_query *query)
{
    const int maps = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
    const int error = maps < 0 ? EBADF : ioctl(maps, MAP_QUERY, query) == 0 ? 0 : errno;

    if (maps >= 0)
        syscall(SYS_close, maps);
    return error;
}

/* Whether the kernel answers the question at all; known after the first time that a file could be opened. */
static bool can_ask(const void *at)
{
    static unsigned known; /* 1 no, 2 yes; the same from every thread */
    struct procmap_query query = {.size = sizeof(query), .query_addr = (uintptr_t)at};
    unsigned answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!answer) {
        const int error = ask(&query);
        if (error == EBADF)
            return false;
        answer = error == 0 || error == ENOENT ? 2 : 1;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer == 2;
}

void gf_reach_begin(struct gf_reach *ret, const void *at, bool write)
{
    *ret = (struct gf_reach){.write = write, .next = (uintptr_t)at, .knows = can_ask(at)};
}

/* The mapping at next. Without a descriptor to be had each page is brought in, as a file's are. */
static bool look(struct gf_reach *reach)
{
    struct procmap_query query = {.size = sizeof(query), .query_addr = reach->next};
    const uint64_t needed = reach->write ? MAP_WRITABLE : MAP_READABLE;

    if (GF_PLANTED(touches_blindly)) {
        reach->known = UINTPTR_MAX;
        return true;
    }
    const int error = ask(&query);
    if (error == EBADF) {
        reach->file = true;
        reach->known = UINTPTR_MAX;
        return true;
    }
    if (error || !(query.vma_flags & needed) || !gf_reach_pages((const void *)reach->next, 1, reach->write))
        return false;
    reach->known = query.vma_end;
    reach->file = query.inode != 0 || query.dev_major != 0 || query.dev_minor != 0;
    return true;
}

bool gf_reach_is_one_file(struct gf_reach *reach, size_t bytes)
{
    return gf_reach_knows(reach) && (reach->next < reach->known || look(reach)) && reach->file &&
           reach->known - reach->next >= bytes;
}

bool gf_reach_to(struct gf_reach *reach, const void *until)
{
    const uintptr_t end = (uintptr_t)until;

    while (reach->next < end) {
        if (reach->next >= reach->known && !look(reach))
            return false;
        const uintptr_t stop = reach->file ? gf_min(end, reach->known) : reach->known;
        if (reach->file &&
            !gf_reach_pages((const void *)reach->next, stop - reach->next, reach->write))
            return false;
        reach->next = stop;
    }
    return true;
}
