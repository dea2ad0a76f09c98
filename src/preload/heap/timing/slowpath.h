/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times only the operations that can make a heap call slow: waits for jemalloc's locks, system
 * calls, creation of arenas, copying and clearing of large blocks. The fast path contains no timing
 * code. A call begins and ends with the outermost frame of a thread. Its clock starts at the first
 * slow part. Nothing here allocates, takes a lock or changes errno.
 */
#ifndef GF_PRELOAD_HEAP_TIMING_SLOWPATH_H
#define GF_PRELOAD_HEAP_TIMING_SLOWPATH_H

#include "base/base.h"

#include <sys/types.h>

enum gf_slowpath_part {
    gf_slowpath_lock,  /* waiting for a lock of jemalloc */
    gf_slowpath_purge, /* in madvise that frees pages lazily or purges them */
    gf_slowpath_map,   /* in mmap, and setting the mapping's NUMA policy and huge pages */
    gf_slowpath_unmap,
    gf_slowpath_setup, /* a new arena */
    gf_slowpath_huge,  /* the first touch of a new mapping that was advised huge pages */
    GF_SLOWPATH_PARTS,
};

enum gf_slowpath_call {
    gf_slowpath_other, /* inside jemalloc, but not for a call of the program */
    gf_slowpath_malloc,
    gf_slowpath_calloc,
    gf_slowpath_realloc,
    gf_slowpath_memalign,
    gf_slowpath_free,
    GF_SLOWPATH_CALLS,
};

/*
 * A thread's resource usage so far. CPU time is from the thread's clock, because getrusage's is up
 * to a tick old.
 */
struct gf_slowpath_usage {
    bool known;
    uint64_t cpu_us;
    uint64_t minor, major;      /* page faults */
    uint64_t voluntary, forced; /* context switches */
};

/* One slow call. Sizes in bytes, times by CLOCK_MONOTONIC. */
struct gf_slowpath {
    enum gf_slowpath_call call;
    size_t size;       /* 0: unknown */
    const void *block; /* the block that the call returned, even if freed since; or NULL */
    size_t work;       /* bytes cleared or copied outside the timed parts; 0 below 1 MiB */
    bool locked;       /* a lock of jemalloc may be held: the stack must not be unwound */
    bool forked;       /* the process forked during the call */
    bool foreign;      /* another allocator's call: its parts are unknown */
    uint64_t start_ns, end_ns;
    uint64_t part_ns[GF_SLOWPATH_PARTS];
    unsigned part_count[GF_SLOWPATH_PARTS];
    uint64_t part_bytes[GF_SLOWPATH_PARTS];
    struct gf_slowpath_usage before; /* at the start; unknown where a lock wait started the clock */
};

/*
 * before_work is called for at least this much work: reading system counters then costs little in
 * comparison.
 */
#define GF_SLOWPATH_MUCH_WORK ((size_t)8 << 20)

/* These run on the thread of the call, and may not allocate. */
struct gf_slowpath_watcher {
    /* A call took longer than the threshold. No lock of the heap is held, unless slow->locked. */
    void (*report)(const struct gf_slowpath *slow);
    /* A call with at least GF_SLOWPATH_MUCH_WORK begins. */
    void (*before_work)(void);
    /* A call that was sampled, however long it took. */
    void (*sampled)(enum gf_slowpath_call call, size_t size, uint64_t ns);
};

/*
 * Calls the watcher from now on; threshold 0 stops that. The watcher is never freed.
 * Called after the heap has started, so that our fork handlers run around jemalloc's.
 */
void gf_slowpath_watch(uint64_t threshold_ns, const struct gf_slowpath_watcher *watcher);
uint64_t gf_slowpath_threshold(void);

/* Declares that another allocator serves all calls from now on. */
void gf_slowpath_foreign(void);

/* Passes a sampled call to the watcher. */
void gf_slowpath_sampled(enum gf_slowpath_call call, size_t size, uint64_t ns);

/* Called before the first touch of a huge page. Calls before_work, once per call. */
void gf_slowpath_before_huge(void);

/* Reads the calling thread's usage so far. Takes about a microsecond. */
void gf_slowpath_usage(struct gf_slowpath_usage *ret);

/* Whether the process was forking at some time in this interval. */
bool gf_slowpath_forked(uint64_t start_ns, uint64_t end_ns);

/* Called around a part. The mark is passed from begin to end. */
struct gf_slowpath_mark {
    uint64_t at;     /* 0 without a watcher */
    uint64_t nested; /* duration of earlier inner parts of the enclosing part */
};
struct gf_slowpath_mark gf_slowpath_begin(enum gf_slowpath_part part);
void gf_slowpath_end(const struct gf_slowpath_mark *mark, enum gf_slowpath_part part, size_t bytes);

/*
 * Called around a call that may copy or clear `work` bytes. The clock starts at once if work or
 * size is large. If this returns false, gf_slowpath_leave must not be called. Frames nest; only the
 * outermost counts. block: the block that the call returns, or NULL.
 */
bool gf_slowpath_enter(enum gf_slowpath_call call, size_t size, size_t work);
void gf_slowpath_leave(const void *block);

#endif
