/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times the operations that can make a heap call slow: waits for jemalloc's locks, system calls,
 * creation of arenas, copying and clearing of large blocks. The fast path has no timing code.
 * Wrappers of jemalloc's functions mark a call as a frame, and a slow operation as a part. A call
 * lasts as long as the thread's outermost frame. The call's clock starts at its first slow part. No
 * function here allocates, takes a lock or changes errno.
 */
#pragma once

#include "base/base.h"

enum gf_slowpath_part {
    gf_slowpath_lock,  /* waiting for a lock of jemalloc */
    gf_slowpath_purge, /* a call of madvise that frees pages lazily or purges them */
    gf_slowpath_map,   /* mmap, and setting the new mapping's NUMA policy and huge pages */
    gf_slowpath_unmap,
    gf_slowpath_setup, /* a new arena */
    gf_slowpath_huge,  /* the first touch of a new mapping for which huge pages were advised */
    GF_SLOWPATH_PARTS,
};

enum gf_slowpath_call {
    gf_slowpath_other, /* work of jemalloc outside the calls listed below */
    gf_slowpath_malloc,
    gf_slowpath_calloc,
    gf_slowpath_realloc,
    gf_slowpath_memalign,
    gf_slowpath_free,
    GF_SLOWPATH_CALLS,
};

/*
 * A thread's resource usage until now. The CPU time is read from the thread's clock, because
 * getrusage may return a value that is a tick old.
 */
struct gf_slowpath_usage {
    bool known;
    uint64_t cpu_us;
    uint64_t minor, major;      /* page faults */
    uint64_t voluntary, forced; /* context switches */
};

/* One slow call. Sizes are in bytes, and times are those of CLOCK_MONOTONIC. */
struct gf_slowpath {
    enum gf_slowpath_call call;
    size_t size;       /* 0: unknown */
    const void *block; /* the returned block, which may have been freed since; or NULL */
    size_t work;       /* bytes cleared or copied outside the timed parts; 0 below 1 MiB */
    bool locked;       /* a lock of jemalloc may be held, so the stack must not be unwound */
    bool forked;       /* the process forked during the call */
    bool foreign;      /* a call of another allocator; the call's parts are unknown */
    uint64_t start_ns, end_ns;
    uint64_t part_ns[GF_SLOWPATH_PARTS];
    unsigned part_count[GF_SLOWPATH_PARTS];
    uint64_t part_bytes[GF_SLOWPATH_PARTS];
    /* The thread's usage when the clock started; unknown if a wait for a lock started the clock. */
    struct gf_slowpath_usage before;
};

/*
 * before_work is called before a call that clears or copies at least this many bytes. Compared with
 * that work, reading system counters is cheap.
 */
#define GF_SLOWPATH_MUCH_WORK ((size_t)8 << 20)

/* These functions run on the thread that made the call, and must not allocate. */
struct gf_slowpath_watcher {
    /*
     * Called after a call that took longer than the threshold. No lock of the heap is held, unless
     * slow->locked is true.
     */
    void (*report)(const struct gf_slowpath *slow);
    /* Called before a call that clears or copies at least GF_SLOWPATH_MUCH_WORK bytes. */
    void (*before_work)(void);
    /* Called after a call that was sampled. The call may have been short. */
    void (*sampled)(enum gf_slowpath_call call, size_t size, uint64_t ns);
};

/*
 * Starts calling the watcher. With a threshold of 0, stops calling it. The watcher must never be
 * freed. Called after the heap's start, so that our fork handlers run before those of the heap
 * prior to a fork, and after them following the fork.
 */
void gf_slowpath_watch(uint64_t threshold_ns, const struct gf_slowpath_watcher *watcher);
uint64_t gf_slowpath_threshold(void);

/* Marks all later calls as calls of another allocator. */
void gf_slowpath_foreign(void);

/* Passes a sampled call to the watcher. */
void gf_slowpath_sampled(enum gf_slowpath_call call, size_t size, uint64_t ns);

/*
 * Called before the first touch of a huge page. Calls before_work, unless gf_slowpath_enter has
 * done so for this call.
 */
void gf_slowpath_before_huge(void);

/* Reads the calling thread's usage until now. Takes about a microsecond. */
void gf_slowpath_usage(struct gf_slowpath_usage *ret);

/* Whether the process was forking at some time in this interval. */
bool gf_slowpath_forked(uint64_t start_ns, uint64_t end_ns);

/*
 * Called before and after a part. Pass the mark that gf_slowpath_begin returned to gf_slowpath_end.
 */
struct gf_slowpath_mark {
    uint64_t at;     /* start time; 0: the part is not timed */
    uint64_t nested; /* duration of earlier parts within the enclosing part */
};
struct gf_slowpath_mark gf_slowpath_begin(enum gf_slowpath_part part);
void gf_slowpath_end(const struct gf_slowpath_mark *mark, enum gf_slowpath_part part, size_t bytes);

/*
 * Open and close a frame, before and after a call that may copy or clear `work` bytes. If work or
 * size is large, the clock starts at once. If gf_slowpath_enter returns false, do not call
 * gf_slowpath_leave. Frames may be nested; only the outermost frame counts. block: the block that
 * the call returns, or NULL.
 */
bool gf_slowpath_enter(enum gf_slowpath_call call, size_t size, size_t work);
void gf_slowpath_leave(const void *block);
