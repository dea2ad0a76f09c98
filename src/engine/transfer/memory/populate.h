/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes sure that helpers can touch a range of the program's memory. A truncated file, a hole
 * between mappings, or a protection key that forbids the access would raise a signal on the thread
 * that touches the memory, and the program does not know the helpers. These functions return false
 * instead. They are called on the thread that called the copy, because they must use that thread's
 * protection key rights.
 *
 * For a mapping without a file, two steps suffice: reading the kernel's description (vma_query.h)
 * and populating one page. A protection key holds for a whole mapping, and the first touch of an
 * absent page is an ordinary page fault. Pages of a file are populated in order, as far as a copy
 * needs them. In large copies, each thread populates the piece that it copies. If pieces were
 * small, the threads would contend for the lock of one page table.
 */
#ifndef GF_ENGINE_TRANSFER_MEMORY_POPULATE_H
#define GF_ENGINE_TRANSFER_MEMORY_POPULATE_H

#include "base/base.h"

struct gf_populate {
    /*
     * True: the kernel describes mappings, and its descriptions are used. False: each thread
     * populates pages before it touches them.
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
 * Whether the kernel's descriptions of mappings are used (vma_query.h). If not, each thread calls
 * gf_populate_pages before it touches pages.
 */
static inline bool gf_populate_has_vmas(const struct gf_populate *populate)
{
    return populate->has_vmas;
}

/* After this call each thread populates pages before it touches them. */
static inline void gf_populate_delegate(struct gf_populate *populate)
{
    populate->has_vmas = false;
}

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

#endif
