/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap as the engine sees it. The preload library fills in struct gf_heap_ops, and the engine
 * calls its functions. Sizes are in bytes. Any thread that holds no lock of the library may call
 * these functions, and they keep errno. Exceptions are stated.
 */
#ifndef GF_ABI_HEAP_API_H
#define GF_ABI_HEAP_API_H

#include "base/cpus.h"

#include <sys/types.h>

enum gf_heap_mode {
    gf_heap_mode_undecided = 0,
    gf_heap_mode_replace,     /* jemalloc serves malloc */
    gf_heap_mode_passthrough, /* the next allocator in search order serves malloc */
    /* jemalloc serves malloc, and calls are timed; never in gf_heap_ops.mode. */
    gf_heap_mode_sampled,
};

/* A range of addresses that the heap has mapped. */
struct gf_range {
    uintptr_t start;
    size_t size;
};

/* From jemalloc's statistics; 0 where it was built without them. */
struct gf_heap_stats {
    uint64_t mapped, active, allocated;
    uint64_t dirty, lazily_freed; /* free pages that were not purged */
    uint64_t cached;              /* blocks in the caches of threads; part of `allocated` */
    unsigned arenas;
};

/* The heap's handling of freed pages: src/preload/heap/pages/retain.h. */
struct gf_heap_retained {
    bool managed; /* false: a user's MALLOC_CONF sets the decay; the heap adds nothing */
    /*
     * Bytes of free pages that are not purged. An upper bound, because it includes pages that were
     * never touched.
     */
    uint64_t max_bytes;
    uint64_t unused_bytes;  /* the part that stayed free for at least 10 s */
    uint64_t unused_purged; /* bytes purged because they stayed free */
    /* Bytes freed since the last lazy free; an upper bound of the dirty bytes. */
    uint64_t freed;
    uint64_t dirty_limit; /* most dirty bytes that the heap keeps */
    uint64_t headroom;    /* when the heap last read it */
    uint64_t readings, lazy_frees, purges;
    uint64_t lazily_freed_bytes, purged_bytes; /* sums since the start, for any cause */
};

/* Transparent huge pages: src/preload/heap/pages/huge.h. */
struct gf_heap_huge {
    bool on;
    const char *reason;   /* the reason for `on` */
    uint64_t asked_bytes; /* bytes of new mappings that were large enough */
    /* The part of asked_bytes whose first huge page was allocated quickly. */
    uint64_t advised_bytes;
};

/* Estimates from samples: src/preload/heap/pages/first_touch.h. */
struct gf_heap_first_touch {
    uint64_t looks; /* blocks examined */
    uint64_t timed; /* page faults timed */
    /*
     * Bytes of large blocks that had no page yet when malloc returned, minus bytes that still had
     * none when the block was freed.
     */
    uint64_t missing_bytes;
    uint64_t again_bytes; /* the part of missing_bytes that an earlier purge removed */
    uint64_t us;          /* estimated duration of the first touch of missing_bytes */
    uint64_t ns_per_mib;  /* the duration at the latest sample */
};

/* A jemalloc setting in force, and the reason for it. */
struct gf_heap_setting {
    const char *name; /* in jemalloc */
    char value[24];   /* read back */
    bool ours;        /* false: a user's MALLOC_CONF or /etc/malloc.conf sets another value */
    const char *reason;
};

struct gf_heap_ops {
    enum gf_heap_mode mode;
    const char *mode_reason; /* "GPUFEED_HEAP=off", "tcmalloc is preloaded", ... never NULL */
    /*
     * Sets the memory policy (MPOL_PREFERRED or MPOL_BIND) that each new mapping of the heap gets
     * by mbind; policy 0 sets none. A refused mbind is counted and otherwise ignored.
     */
    void (*set_node)(int policy, const struct gf_nodes *nodes);
    uint64_t (*refused)(void); /* number of mbind calls that the kernel refused */
    /*
     * Copies up to `cap` ranges that are mapped now. Unused entries of `ret` get size 0. Returns
     * the number of mapped ranges, which may exceed `cap`. SIZE_MAX: the table has overflowed, so
     * the copy may be incomplete.
     */
    size_t (*ranges)(struct gf_range *ret, size_t cap);
    /* Threads that start from now on share `cpus` arenas, the number of CPUs that they may use. */
    void (*set_cpus)(unsigned cpus);
    /*
     * From now on a fork quiesces the heap instead of taking jemalloc's locks, so it copies fewer
     * pages. The call takes milliseconds. It has no effect if the kernel refuses membarrier.
     */
    void (*allow_quiesce)(void);
    /*
     * Times the next `calls` calls of malloc, calloc, realloc and free, for the histograms. One
     * thread only.
     */
    void (*sample)(unsigned calls);
    /*
     * Has an effect in mode passthrough: from now on, the other allocator's calls for large blocks
     * are timed.
     */
    void (*time_passthrough)(void);
    void (*stats)(struct gf_heap_stats *ret);
    /* Copies the i-th setting. False: there are at most i settings. */
    bool (*setting)(size_t i, struct gf_heap_setting *ret);
    /*
     * The ignored parts of MALLOC_CONF and /etc/malloc.conf, with reasons; "" if nothing is
     * ignored.
     */
    const char *(*ignored_conf)(void);
    void (*huge)(struct gf_heap_huge *ret);
    void (*first_touch)(struct gf_heap_first_touch *ret);
    void (*retained)(struct gf_heap_retained *ret); /* cheap: only a few loads */
    /*
     * The caller promises to check the headroom and to free pages in time, until the process ends
     * or forks. So the heap keeps more dirty pages. Each call of this function lets the heap call
     * `wake` once, from within a free, when it has many dirty pages.
     */
    void (*watch_retained)(void (*wake)(void));
    /*
     * free_lazily frees all dirty pages by MADV_FREE; purge frees all free pages by MADV_DONTNEED.
     * False: nothing was done, because another thread is doing it or a user's MALLOC_CONF sets the
     * decay.
     */
    bool (*free_lazily)(void);
    bool (*purge)(void);
    /* If due, purges pages that were not reused for 10 to 20 seconds. */
    void (*purge_unused)(void);
};

#endif
