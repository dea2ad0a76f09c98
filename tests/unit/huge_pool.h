/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of reserved huge pages for tests: ordinary memory serves mappings with MAP_HUGETLB. */
#ifndef GF_TESTS_HUGE_POOL_H
#define GF_TESTS_HUGE_POOL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

static struct {
    bool has_pages;
    unsigned asked; /* mappings that were requested of the pool */
} huge_pool;

void *__real_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);

/* Maps aligned memory, as the kernel does for MAP_HUGETLB. */
static inline void *map_from_huge_pool(size_t size, int protection, int flags)
{
    const size_t page = (size_t)2 << 20;

    huge_pool.asked++;
    errno = ENOMEM;
    if (!huge_pool.has_pages)
        return MAP_FAILED;
    char *all =
        __real_mmap64(NULL, size + page, protection, flags & (MAP_SHARED | MAP_ANONYMOUS), -1, 0);
    char *at = (char *)(((uintptr_t)all + page - 1) & ~(page - 1));
    if (at > all)
        munmap(all, (size_t)(at - all));
    if (at < all + page)
        munmap(at + size, (size_t)(all + page - at));
    return at;
}

#endif
