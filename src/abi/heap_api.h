/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of the heap for the engine. The preload library fills in struct gf_heap_ops, and
 * the engine calls its functions. Sizes are in bytes. Unless a comment says otherwise, any thread
 * that holds no lock of the library may call these functions, and they keep errno.
 */
#pragma once

#include "base/cpus.h"

enum gf_heap_mode {
    gf_heap_mode_undecided = 0,
    gf_heap_mode_replace,     /* jemalloc serves malloc */
    gf_heap_mode_passthrough, /* the next allocator in search order serves malloc */
    /*
     * The same as gf_heap_mode_replace, while calls are timed. gf_heap_ops.mode never has this
     * value.
     */
    gf_heap_mode_sampled,
};

/* A range of addresses that the heap has mapped. */
struct gf_range {
    uintptr_t start;
    size_t size;
};

/* Values of jemalloc's statistics, with those of the big-block store. A value is 0 if jemalloc was built without statistics. */
struct gf_heap_stats {
    uint64_t mapped, active, allocated;
    /* Bytes of free pages that were not purged; kept mappings count as dirty. */
    uint64_t dirty, lazily_freed;
    /* Bytes of blocks in the caches of threads; part of `allocated`. */
    uint64_t cached;
    unsigned arenas;
};

/* What the heap keeps of freed memory: src/preload/heap/budget.h. */
struct gf_heap_retained {
    /*
     * False if a user's MALLOC_CONF sets the decay; then jemalloc alone decides about its free pages,
     * unless memory is short.
     */
    bool managed;
    /*
     * Bytes of free pages and of kept mappings. An upper bound of the resident bytes, because it
     * includes pages that were never touched.
     */
    uint64_t max_bytes;
    uint64_t start, limit;  /* the start budget, and what the heap may keep now */
    uint64_t excess_purged; /* bytes returned because they exceeded the limit */
    uint64_t purges;        /* calls of gf_heap_ops.purge */
    /* Sums since the process started, whatever the reason. */
    uint64_t lazily_freed_bytes, purged_bytes;
};

/* Transparent huge pages: src/preload/heap/first_touch.h. */
struct gf_heap_huge {
    bool on;
    const char *reason;   /* why huge pages are on or off */
    uint64_t asked_bytes; /* bytes of new mappings that are large enough to get huge pages */
    /*
     * The part of asked_bytes that was advised to use huge pages, because the kernel allocated the
     * mapping's first huge page quickly.
     */
    uint64_t advised_bytes;
};

/* First touches of new large blocks, estimated from samples: src/preload/heap/first_touch.h. */
struct gf_heap_first_touch {
    uint64_t looks; /* blocks examined */
    uint64_t timed; /* page faults timed */
    /*
     * Bytes of large blocks for which no page was present when malloc returned, minus bytes for
     * which no page was present when the block was freed.
     */
    uint64_t missing_bytes;
    uint64_t again_bytes; /* the part of missing_bytes whose pages an earlier purge had removed */
    uint64_t us;          /* estimated duration of the first touch of missing_bytes */
    uint64_t ns_per_mib;  /* the duration for 1 MiB, by the latest sample */
};

/* A setting of jemalloc, its value in force, and the reason for the value. */
struct gf_heap_setting {
    const char *name; /* jemalloc's name of the setting */
    char value[24];   /* as jemalloc reports it */
    bool ours;        /* false: a user's MALLOC_CONF or /etc/malloc.conf sets another value */
    const char *reason;
};

struct gf_heap_ops {
    enum gf_heap_mode mode;
    const char *mode_reason; /* such as "GPUFEED_HEAP=off"; never NULL */
    /*
     * Sets the memory policy (MPOL_PREFERRED or MPOL_BIND) that each new mapping of the heap gets
     * by mbind. With policy 0, new mappings get no policy. If the kernel refuses an mbind, the call
     * is counted, and the mapping is used without the policy.
     */
    void (*set_node)(int policy, const struct gf_nodes *nodes);
    uint64_t (*refused)(void); /* number of mbind calls that the kernel refused */
    /*
     * Copies up to `cap` ranges that are mapped now. Unused entries of `ret` get size 0. Returns
     * the number of mapped ranges, which may exceed `cap`. Returns SIZE_MAX if the heap's table of
     * ranges has overflowed, because ranges may then be missing.
     */
    size_t (*ranges)(struct gf_range *ret, size_t cap);
    /* Called on a thread of the library before its first heap call (preload/heap/arenas.h). */
    void (*share_main)(void);
    /*
     * Lets threads that start from now on share `cpus` arenas. Pass the number of CPUs that these
     * threads may use.
     */
    void (*set_cpus)(unsigned cpus);
    /*
     * Times the next `calls` calls of malloc, calloc, realloc and free, for the histograms of call
     * durations. Only one thread may call this.
     */
    void (*sample)(unsigned calls);
    /*
     * In mode passthrough, starts to time the other allocator's calls for large blocks. May be
     * NULL.
     */
    void (*time_passthrough)(void);
    void (*stats)(struct gf_heap_stats *ret);
    /* Copies the i-th setting, counted from 0. Returns false if there is no i-th setting. */
    bool (*setting)(size_t i, struct gf_heap_setting *ret);
    /*
     * Returns the parts of MALLOC_CONF and /etc/malloc.conf that jemalloc ignored, with the
     * reasons. Returns "" if jemalloc ignored nothing.
     */
    const char *(*ignored_conf)(void);
    void (*huge)(struct gf_heap_huge *ret);
    void (*first_touch)(struct gf_heap_first_touch *ret);
    void (*retained)(struct gf_heap_retained *ret); /* fast: only reads some variables */
    /*
     * The caller promises to watch the headroom, and to call purge_unused from time to time, until
     * the process ends or forks. In return the heap keeps more, but less if the first call passes
     * little headroom. Once after each call of this function, the heap calls `wake`, from within
     * malloc or free, as soon as it keeps 32 MiB.
     */
    void (*watch_retained)(void (*wake)(void), uint64_t headroom);
    /* Returns all free memory to the kernel. */
    void (*purge)(void);
    /* Returns the memory that exceeds the limit now, although the program makes no call. */
    void (*purge_unused)(void);
};
