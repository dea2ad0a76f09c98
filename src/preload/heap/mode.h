/* SPDX-License-Identifier: Apache-2.0 */
/* The mode of the heap: which allocator serves malloc in this process. */
#pragma once

#include "abi/heap_api.h"
#include "config/options.h"

/*
 * The mode. The deciding thread writes it once. Afterwards only sampling changes it, from
 * gf_heap_mode_replace to gf_heap_mode_sampled and back. The variable is not _Atomic, because every
 * call of the malloc family reads it, and a relaxed C11 load takes one more instruction. A plain
 * read is safe, because all stores are atomic, and an aligned int is never half written.
 */
extern enum gf_heap_mode gf_mode_now __attribute__((visibility("hidden")));

static inline enum gf_heap_mode gf_mode_get(void)
{
    return __atomic_load_n(&gf_mode_now, __ATOMIC_ACQUIRE);
}

static inline void gf_mode_set(enum gf_heap_mode mode)
{
    __atomic_store_n(&gf_mode_now, mode, __ATOMIC_RELEASE);
}

/* Whether jemalloc serves malloc. False while the mode is undecided. */
static inline bool gf_mode_is_jemalloc(void)
{
    const enum gf_heap_mode mode = gf_mode_get();
    return mode == gf_heap_mode_replace || mode == gf_heap_mode_sampled;
}

struct gf_mode_facts {
    const struct gf_options *options;
    size_t page; /* the kernel's page size, in bytes */
    /* The page size that jemalloc was built for; it can also use smaller pages. */
    size_t jemalloc_page;
    bool called_inside; /* malloc was called before or during the decision */
    bool cramped;       /* too little address space is left for jemalloc's start */
    bool duplicate;     /* another copy of this library precedes this copy */
    /*
     * An object that defines malloc and precedes this object in search order; NULL if there is
     * none.
     */
    const char *before;
    /* The object that would serve malloc without this library; NULL if that is libc. */
    const char *behind;
};

/*
 * Decides the mode. This is a pure function, so that each case can be unit-tested. Sets *ret_reason
 * to a constant string or to buf.
 */
enum gf_heap_mode gf_mode_decide(const struct gf_mode_facts *facts, char *buf, size_t size,
                                 const char **ret_reason);
