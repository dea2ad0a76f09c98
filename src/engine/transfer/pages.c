/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pages.h"

#include "engine/transfer/tuning.h"
#include "os/files.h"
#include "os/permit.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/utsname.h>

char *gf_map_at_huge_page(size_t bytes, int protection, int flags)
{
    const size_t wanted = bytes + GF_HUGE_PAGE - gf_page_size();
    char *all = mmap(NULL, wanted, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    char *at = (char *)gf_round_up((uintptr_t)all, GF_HUGE_PAGE);
    if (at > all)
        munmap(all, (size_t)(at - all));
    if (at + bytes < all + wanted)
        munmap(at + bytes, (size_t)(all + wanted - at) - bytes);
    return at;
}

bool gf_absent_mostly(uintptr_t start, size_t bytes, unsigned samples)
{
    const size_t page = gf_page_size();
    unsigned absent = 0;

    if (!gf_permit(gf_permit_mincore))
        return false;
    for (size_t i = 0; i < samples; i++) {
        unsigned char present = 1;
        if (mincore((void *)((start + bytes / samples * i) / page * page), page, &present) != 0)
            return false; /* not mapped */
        absent += !(present & 1);
    }
    return absent > samples / 2;
}

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

static void maps_in_child(void)
{
    gf_kept_file_close_in_child(&maps);
}

void gf_vma_query_start(void)
{
    static atomic_flag registered = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set_explicit(&registered, memory_order_relaxed))
        pthread_atfork(NULL, NULL, maps_in_child);
    gf_kept_file_open(&maps);
}

static int query_maps(struct procmap_query *query)
{
    gf_keep_errno();
    const int fd = gf_kept_file_get(&maps);
    return fd < 0 ? EBADF : ioctl(fd, QUERY, query) == 0 ? 0 : errno;
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

/*
 * Before Linux 6.9, MADV_POPULATE_READ never returns if a disk cannot read a page: it repeats the
 * read after each error (Linux 631426ba1d45). process_vm_readv returns an error for such a page.
 */
static enum gf_probed find_endless(void)
{
    struct utsname host;
    char *end;

    if (uname(&host) != 0)
        return gf_probed_no;
    const unsigned long major = strtoul(host.release, &end, 10);
    const unsigned long minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    return gf_probed_as(major < 6 || (major == 6 && minor < 9));
}

static bool is_endless_at_errors(void)
{
    static _Atomic unsigned char known;
    return gf_probe(&known, find_endless);
}

#define PART 64 /* the most pages that are checked and read by one call */

/* Reads a byte of each page in the part that is not in memory. */
static bool read_absent_part(uintptr_t start, const unsigned char *present, size_t pages)
{
    char bytes[PART];
    struct iovec local = {.iov_base = bytes}, remote[PART];

    for (size_t i = 0; i < pages; i++)
        if (!(present[i] & 1))
            remote[local.iov_len++] = (struct iovec){(void *)(start + i * gf_page_size()), 1};
    return !local.iov_len || process_vm_readv(getpid(), &local, 1, remote, local.iov_len, 0) ==
                                 (ssize_t)local.iov_len;
}

/*
 * Reads absent pages of a file from the disk, so that populating finds all pages in memory. If the
 * process neither owns the file nor may write it, mincore reports every page as present, so this
 * function reads no page.
 */
static bool read_absent(uintptr_t start, uintptr_t end)
{
    unsigned char present[PART];

    for (uintptr_t at = start; at < end; at += PART * gf_page_size()) {
        const size_t bytes = gf_min(end - at, PART * gf_page_size());
        if (mincore((void *)at, bytes, present) != 0)
            return errno != ENOMEM;
        if (!read_absent_part(at, present, bytes / gf_page_size()))
            return false;
    }
    return true;
}

static bool can_be_read(uintptr_t start, uintptr_t end)
{
    return !is_endless_at_errors() || !gf_permit(gf_permit_mincore) ||
           !gf_permit(gf_permit_read_memory) || read_absent(start, end);
}

bool gf_populate_pages(const void *at, size_t bytes, bool write)
{
    const uintptr_t mask = gf_page_size() - 1;
    const uintptr_t start = (uintptr_t)at & ~mask;
    const uintptr_t end = ((uintptr_t)at + bytes + mask) & ~mask;
    const int advice = write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    return (write || can_be_read(start, end)) && madvise((void *)start, end - start, advice) == 0;
}

static enum gf_probed find_populate(void)
{
    char *page =
        mmap(NULL, gf_page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return gf_probed_unknown;
    const bool possible = gf_populate_pages(page, 1, false) && gf_populate_pages(page, 1, true);
    munmap(page, gf_page_size());
    return gf_probed_as(possible);
}

bool gf_populate_is_possible(void)
{
    static _Atomic unsigned char known;
    return gf_probe(&known, find_populate);
}

/*
 * Whether the kernel describes mappings (pages.h). The answer is unknown while no file
 * descriptor is free.
 */
static enum gf_probed find_vmas(void)
{
    static const char here;
    struct gf_vma vma;
    const int error = gf_vma_query((uintptr_t)&here, &vma, NULL, 0);
    return error == EBADF ? gf_probed_unknown : gf_probed_as(error == 0 || error == ENOENT);
}

void gf_populate_init(struct gf_populate *ret, const void *at, bool write)
{
    static _Atomic unsigned char known;
    *ret = (struct gf_populate){.write = write,
                                .start = (uintptr_t)at,
                                .next = (uintptr_t)at,
                                .has_vmas = gf_probe(&known, find_vmas)};
}

/*
 * Whether the range has too many small mappings. A query for a mapping takes about as long as all
 * threads together need to copy GF_TUNE_MAPPING_LEAST bytes.
 */
static bool has_many_mappings(struct gf_populate *populate)
{
    const size_t done = populate->next - populate->start;
    return populate->mappings++ >= GF_TUNE_MAPPINGS + done / GF_TUNE_MAPPING_LEAST;
}

/*
 * Describes the mapping at `next`. While no file descriptor is free, the mapping is treated as a
 * mapping of a file, so each page is populated. False: the mapping cannot be touched.
 */
static bool describe_next(struct gf_populate *populate)
{
    struct gf_vma vma;

    if (has_many_mappings(populate))
        return false;
    const int error = gf_vma_query(populate->next, &vma, NULL, 0);
    if (error == EBADF) {
        populate->file = true;
        populate->vma_end = UINTPTR_MAX;
        return true;
    }
    if (error || !(populate->write ? vma.writable : vma.readable) ||
        !gf_populate_pages((const void *)populate->next, 1, populate->write))
        return false;
    populate->vma_end = vma.end;
    populate->file = vma.has_file;
    return true;
}

bool gf_populate_is_one_file(struct gf_populate *populate, size_t bytes)
{
    return populate->has_vmas && (populate->next < populate->vma_end || describe_next(populate)) &&
           populate->file && populate->vma_end - populate->next >= bytes;
}

bool gf_populate_to(struct gf_populate *populate, const void *until)
{
    const uintptr_t end = (uintptr_t)until;

    while (populate->next < end) {
        if (populate->next >= populate->vma_end && !describe_next(populate))
            return false;
        const uintptr_t stop = populate->file ? gf_min(end, populate->vma_end) : populate->vma_end;
        if (populate->file && !gf_populate_pages((const void *)populate->next,
                                                 stop - populate->next, populate->write))
            return false;
        populate->next = stop;
    }
    return true;
}
