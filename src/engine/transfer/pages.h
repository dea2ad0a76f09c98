/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/atomic.h"
#include "base/base.h"

/* Page sizes, and rounding to them. */

#define GF_HUGE_PAGE ((size_t)2 << 20)

/* Returns the page size. Calls sysconf only once. May be called on any thread. */
static inline size_t gf_page_size(void)
{
    static _Atomic size_t size;
    size_t known = gf_load_relaxed(&size);
    if (gf_unlikely(!known)) {
        known = (size_t)sysconf(_SC_PAGESIZE);
        gf_store_relaxed(&size, known);
    }
    return known;
}

static inline size_t gf_round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/*
 * Maps private memory that begins at a huge page, with more flags of mmap. NULL on failure, with errno
 * set.
 */
char *gf_map_at_huge_page(size_t bytes, int protection, int flags);

/* Whether pages of the program's memory are absent. */

/*
 * Checks `samples` pages that are spread evenly over the range, and returns whether most of them
 * are absent. Touches no page. False if a checked page is not mapped, or if the kernel refuses
 * mincore. May be called on any thread.
 */
bool gf_absent_mostly(uintptr_t start, size_t bytes, unsigned samples);

/*
 * Describes one mapping of this process. Uses PROCMAP_QUERY (Linux 6.11) instead of reading all of
 * /proc/self/maps.
 */

/* Opens the file that the queries use. Called within cuInit; os/files.h explains why. */
void gf_vma_query_start(void);

struct gf_vma {
    uintptr_t start, end;
    size_t page;
    bool readable, writable, shared;
    bool has_file;
    /*
     * Device and inode of the mapping's file; 0 without a file. The device is that of the file
     * system, which stat may report differently.
     */
    uint64_t inode, offset; /* `offset`: the file's offset at `start` */
    uint32_t major, minor;
};

/*
 * Describes the mapping at an address. If `name` is not NULL, also stores the name as in
 * /proc/self/maps, or "" if the mapping has none. Returns 0 or an errno: ENOENT if the address is
 * in no mapping, EBADF if the file that the queries use is not open, ENAMETOOLONG if the name does
 * not fit. Any other errno means that the kernel cannot describe mappings. The variable errno is
 * kept. May be called on any thread; the function is no cancellation point.
 */
int gf_vma_query(uintptr_t at, struct gf_vma *ret, char *name, size_t size);

/*
 * Whether one mapping of a file contains the whole range. Shared memory counts as a file. False if
 * the kernel cannot describe mappings. Keeps errno. May be called on any thread.
 */
bool gf_vma_is_file(uintptr_t at, size_t bytes);

/*
 * Makes sure that helpers can touch a range of the program's memory. A truncated file, a hole
 * between mappings, or a protection key that forbids the access would raise a signal on the thread
 * that touches the memory, and the program does not know the helpers. These functions return false
 * instead. They are called on the thread that called the copy, because they must use that thread's
 * protection key rights.
 *
 * For a mapping without a file, two steps suffice: reading the kernel's description (pages.h)
 * and populating one page. A protection key holds for a whole mapping, and the first touch of an
 * absent page is an ordinary page fault. Pages of a file are populated in order, as far as a copy
 * needs them. In large copies, each thread populates the piece that it copies. If pieces were
 * small, the threads would contend for the lock of one page table.
 */

struct gf_populate {
    /*
     * True: the kernel describes mappings, and its descriptions are used. False: each thread calls
     * gf_populate_pages before it touches pages. A caller may set it to false.
     */
    bool has_vmas;
    bool write;
    bool file;         /* the mapping at `next` has a file */
    unsigned mappings; /* number of mappings that were queried so far */
    uintptr_t start;   /* the start of the range */
    uintptr_t next;    /* the range can be touched from `start` to this address */
    uintptr_t vma_end; /* the end of the mapping at `next`, as far as it is known */
};

/*
 * Whether the kernel has MADV_POPULATE_READ and MADV_POPULATE_WRITE (Linux 5.14). May be called on
 * any thread.
 */
bool gf_populate_is_possible(void);

/*
 * Describes a range that begins at `at`. `write`: the copy writes to the range; otherwise it only
 * reads.
 */
void gf_populate_init(struct gf_populate *ret, const void *at, bool write);

/*
 * Whether the next `bytes` bytes all belong to one mapping of a file. False if the kernel does not
 * describe mappings.
 */
bool gf_populate_is_one_file(struct gf_populate *populate, size_t bytes);

/*
 * Makes sure that the range can be touched from `next` to `until`. False: some page cannot be
 * touched, or the range consists of so many small mappings that querying them would take longer
 * than copying.
 */
bool gf_populate_to(struct gf_populate *populate, const void *until);

/* Populates the pages of a range. False: a page cannot be touched. May be called on any thread. */
bool gf_populate_pages(const void *at, size_t bytes, bool write);
