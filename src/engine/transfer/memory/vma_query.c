/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/memory/vma_query.h"

#include "os/files.h"

#include <errno.h>
#include <sys/ioctl.h>

/* Copied from <linux/fs.h> of Linux 6.11, because the headers at build time may be older. */
struct procmap_query {
    uint64_t size, query_flags, query_addr;
    uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
    uint64_t vma_name_addr, build_id_addr;
};

#define QUERY _IOWR('f', 17, struct procmap_query)
#define VMA_READABLE 1
#define VMA_WRITABLE 2
#define VMA_SHARED 8

static struct gf_kept_file maps = GF_KEPT_FILE("/proc/thread-self/maps");

void gf_vma_query_start(void)
{
    gf_kept_file_open(&maps);
}

static int query_maps(struct procmap_query *query)
{
    const int before = errno;
    const int fd = gf_kept_file_get(&maps);
    const int error = fd < 0 ? EBADF : ioctl(fd, QUERY, query) == 0 ? 0 : errno;

    errno = before;
    return error;
}

int gf_vma_query(uintptr_t at, struct gf_vma *ret, char *name, size_t size)
{
    struct procmap_query query = {.size = sizeof(query),
                                  .query_addr = at,
                                  .vma_name_addr = (uintptr_t)name,
                                  .vma_name_size = (uint32_t)size};
    const int error = query_maps(&query);

    if (error)
        return error;
    if (name && !query.vma_name_size)
        *name = '\0';
    *ret = (struct gf_vma){
        .start = (uintptr_t)query.vma_start,
        .end = (uintptr_t)query.vma_end,
        .page = (size_t)query.vma_page_size,
        .readable = query.vma_flags & VMA_READABLE,
        .writable = query.vma_flags & VMA_WRITABLE,
        .shared = query.vma_flags & VMA_SHARED,
        .has_file = query.inode != 0 || query.dev_major != 0 || query.dev_minor != 0,
        .inode = query.inode,
        .offset = query.vma_offset,
        .major = query.dev_major,
        .minor = query.dev_minor,
    };
    return 0;
}

bool gf_vma_is_file(uintptr_t at, size_t bytes)
{
    struct gf_vma vma;
    return gf_vma_query(at, &vma, NULL, 0) == 0 && vma.has_file && vma.end - at >= bytes;
}
