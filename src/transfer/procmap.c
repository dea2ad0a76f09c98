/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/procmap.h"

#include "transfer/procmap_query.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool ask(int maps, uintptr_t at, struct gf_procmap *ret)
{
    struct procmap_query query = {.size = sizeof(query),
                                  .query_addr = at,
                                  .vma_name_addr = (uintptr_t)ret->name,
                                  .vma_name_size = sizeof(ret->name)};

    if (ioctl(maps, MAP_QUERY, &query) != 0)
        return false;
    *ret->name = query.vma_name_size ? *ret->name : '\0';
    ret->start = (uintptr_t)query.vma_start;
    ret->end = (uintptr_t)query.vma_end;
    ret->page = (size_t)query.vma_page_size;
    ret->shared = query.vma_flags & MAP_SHARED_;
    return true;
}

bool gf_procmap_read(uintptr_t at, struct gf_procmap *ret)
{
    const int error = errno;
    const int maps = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
    const bool known = maps >= 0 && ask(maps, at, ret);

    if (maps >= 0)
        syscall(SYS_close, maps);
    errno = error;
    return known;
}
