/* SPDX-License-Identifier: Apache-2.0 */
/* Who serves malloc in this process: pure, so each row is a unit test. */
#ifndef GF_HEAP_MODE_H
#define GF_HEAP_MODE_H

#include "config/options.h"
#include "heap/heap.h"

struct gf_mode_facts {
    const struct gf_options *options;
    size_t page;          /* the kernel's */
    size_t jemalloc_page; /* what jemalloc was built for: it serves this and smaller ones */
    bool called_inside;   /* an allocation arrived before or while deciding */
    bool cramped;         /* not even the address space that jemalloc needs to start */
    bool second;          /* another copy of the library stands before this one */
    const char *before;   /* object that serves malloc before us; NULL when we are the first */
    const char *behind;   /* object that would serve it without us; NULL when that is libc */
};

/* The reason is kept in buf, or constant. */
enum gf_heap_mode gf_mode_decide(const struct gf_mode_facts *facts, char *buf, size_t size,
                                 const char **ret_reason);

#endif
