/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes sure that a range of the program's memory can be touched by other threads: a truncated
 * file, a hole, a protection key show here as an answer, where touching would be a signal on a
 * thread that the program does not know. On the thread that asked for the copy, whose rights count.
 *
 * What the kernel says of a mapping (PROCMAP_QUERY, Linux 6.11) and one page of it, for protection
 * keys belong to mappings, are enough where no file is behind it: what is missing there is a page
 * fault like any other. Pages of a file are brought in one after the other, as far as is asked, or by
 * each thread for what it copies. Doing the latter in small pieces costs copies of many threads a
 * third: they contend for the lock of the page table that they share.
 */
#ifndef GF_TRANSFER_REACH_H
#define GF_TRANSFER_REACH_H

#include "base/base.h"

struct gf_reach {
    bool knows; /* the kernel tells mappings apart; else who touches a page brings it in first */
    bool write;
    bool file;          /* the mapping at next has one */
    uintptr_t next;     /* what lies below can be touched */
    uintptr_t known;    /* the end of the mapping at next */
};

/* Whether pages can be brought in on this kernel at all (Linux 5.14). */
bool gf_reach_is_possible(void);

void gf_reach_begin(struct gf_reach *ret, const void *at, bool write);

/* Whether the kernel tells mappings apart; if not, gf_reach_pages before each touch. */
static inline bool gf_reach_knows(const struct gf_reach *reach)
{
    return reach->knows;
}

/* From now on who touches a page brings it in. */
static inline void gf_reach_leave(struct gf_reach *reach)
{
    reach->knows = false;
}

/* Whether the next bytes are all of one mapping that has a file, as far as the kernel tells. */
bool gf_reach_is_one_file(struct gf_reach *reach, size_t bytes);

/* False: some page below `until`, from where it stood, cannot be touched. */
bool gf_reach_to(struct gf_reach *reach, const void *until);

/* Brings in the pages of a range; false if one cannot be. Any thread. */
bool gf_reach_pages(const void *at, size_t bytes, bool write);

#endif
