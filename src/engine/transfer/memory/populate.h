/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes sure that other threads can touch a range of the program's memory. These functions fail at
 * a truncated file, a hole, or a protection key that forbids the access. A touch there would raise
 * a signal on a thread that the program does not know. They are called on the thread that called
 * the copy, because its protection key rights count.
 *
 * For a mapping without a file, two steps suffice: reading the kernel's description (vma_query.h)
 * and populating one page. Protection keys belong to mappings, and touching an absent page is an
 * ordinary page fault. Pages of a file are populated in order, as far as a copy needs them. In
 * large copies, each thread populates the piece that it copies. Small pieces would make the threads
 * contend for the lock of one page table.
 */
#ifndef GF_ENGINE_TRANSFER_MEMORY_POPULATE_H
#define GF_ENGINE_TRANSFER_MEMORY_POPULATE_H

#include "base/base.h"

struct gf_populate {
    /*
     * True if the kernel describes mappings, and its descriptions are used. Otherwise each thread
     * populates pages before it touches them.
     */
    bool has_vmas;
    bool write;
    bool file;         /* the mapping at `next` has a file */
    unsigned mappings; /* so many mappings were queried so far */
    uintptr_t start;   /* the start of the range */
    uintptr_t next;    /* all memory of the range below it can be touched */
    uintptr_t vma_end; /* the end of the mapping at `next`, as far as it is known */
};

/* Whether the kernel has MADV_POPULATE_READ and MADV_POPULATE_WRITE (Linux 5.14). Any thread. */
bool gf_populate_is_possible(void);

/* The range begins at `at`. `write`: it will be written to, else only read. */
void gf_populate_init(struct gf_populate *ret, const void *at, bool write);

/*
 * Whether the kernel's descriptions of mappings are used (vma_query.h). If not, gf_populate_pages
 * is called before each touch.
 */
static inline bool gf_populate_has_vmas(const struct gf_populate *populate)
{
    return populate->has_vmas;
}

/* From now on each thread populates pages before it touches them. */
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
 * Populates from `next` up to `until`. False: some page cannot be touched, or the range consists of
 * so many small mappings that describing them takes longer than copying.
 */
bool gf_populate_to(struct gf_populate *populate, const void *until);

/* Populates the pages of a range. False: one cannot be touched. Any thread. */
bool gf_populate_pages(const void *at, size_t bytes, bool write);

#endif
