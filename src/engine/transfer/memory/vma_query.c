/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/memory/vma_query.h"

#include "base/atomic.h"
#include "os/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in <linux/fs.h> since Linux 6.11. The headers at build time may be older. */
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

/*
 * The file is opened once, because opening it at each query would take a number that the program
 * may just be choosing for itself, and a filter may punish it. The program may close the number or
 * give it to another file, so each use compares the file first.
 */
static _Atomic int held = -1;
static _Atomic uint64_t held_device, held_inode;

/* The number stays clear of those that programs choose, and below what select accepts. */
#define LEAST 960

static bool is_held_file(int fd)
{
    struct stat found;
    return fstat(fd, &found) == 0 && found.st_dev == gf_load_relaxed(&held_device) &&
           found.st_ino == gf_load_relaxed(&held_inode);
}

static int open_maps(void)
{
    const int fd = gf_procfs_open(AT_FDCWD, "/proc/thread-self/maps");
    const long high = fd < 0 ? -1 : syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, LEAST);

    if (high < 0)
        return fd;
    gf_procfs_close(fd);
    return (int)high;
}

/*
 * Opens the file again if the held number is no longer that file. The number is then the program's,
 * so it stays open. Returns the number, or -1 if none is free or no file may be opened.
 */
static int maps_file(void)
{
    static atomic_flag opening = ATOMIC_FLAG_INIT;
    int fd = gf_load_acquire(&held);
    struct stat found;

    if (fd >= 0 && is_held_file(fd))
        return fd;
    if (atomic_flag_test_and_set_explicit(&opening, memory_order_acquire))
        return -1; /* another thread opens it */
    fd = open_maps();
    if (fd >= 0 && fstat(fd, &found) == 0) {
        gf_store_relaxed(&held_device, found.st_dev);
        gf_store_relaxed(&held_inode, found.st_ino);
        gf_store_release(&held, fd);
    }
    atomic_flag_clear_explicit(&opening, memory_order_release);
    return fd;
}

void gf_vma_query_start(void)
{
    const int before = errno;
    maps_file();
    errno = before;
}

static int query_maps(struct procmap_query *query)
{
    const int before = errno;
    const int maps = maps_file();
    const int error = maps < 0 ? EBADF : ioctl(maps, QUERY, query) == 0 ? 0 : errno;

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
    };
    return 0;
}
