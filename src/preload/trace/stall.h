/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stall is a call that exceeds its threshold. Stalls are counted for the report, and logged. No
 * function here allocates, takes a lock or changes errno. Any thread.
 */
#ifndef GF_PRELOAD_TRACE_STALL_H
#define GF_PRELOAD_TRACE_STALL_H

#include "preload/trace/cause.h"
#include "preload/trace/latency.h"

/* Starts watching heap calls. Idempotent. Called after the decision about the allocator. */
void gf_stall_watch(uint64_t threshold_ns);

/*
 * Starts watching driver calls. Stalls of children that are forked later are added to this
 * process's. current_gpu returns the GPU of the current context; it is called after a slow driver
 * call. If wait_threshold_ns is 0, no wait is a stall.
 */
typedef bool gf_stall_current_gpu(struct gf_stall_gpu *ret);
void gf_stall_watch_driver(uint64_t threshold_ns, uint64_t wait_threshold_ns,
                           gf_stall_current_gpu *current_gpu);

/*
 * Sets the GPU that stalls of the heap name; NULL if the process uses several. After 8 calls with a
 * GPU, further ones count as NULL.
 */
void gf_stall_set_gpu(const struct gf_stall_gpu *gpu);

/*
 * Called around a driver call. To limit the cost, at most four waits of a thread are timed in each
 * window of about half a millisecond. For small copies, the window is sixteen times as long. All
 * other driver calls are timed. A wait is a stall only if the GPU was idle when the wait began.
 */
struct gf_stall_mark {
    uint64_t start_ns; /* 0 if the call is not timed */
    bool idle;         /* for a wait: the GPU was idle */
    struct gf_slowpath_usage before;
};
void gf_stall_begin(struct gf_stall_mark *mark, enum gf_timed kind, size_t size);
/*
 * Whether the caller should query if the GPU is idle. A query takes the driver's locks, which
 * delays other threads (bench/NOTES.md). So all threads together spend at most 1/200 of the time on
 * queries.
 *
 * That is at most one query per 2.5 ms in the long run, and 40 in a burst. If a program waits only
 * a few times per step, each wait is queried. For 20 ms after the process's first copy, no copy is
 * queried.
 */
bool gf_stall_should_query(const struct gf_stall_mark *mark, enum gf_timed kind);
/* Passes the query's answer. The measured duration starts now. */
void gf_stall_query_done(struct gf_stall_mark *mark, bool idle);
/* block: host memory that the call allocated or was passed, or NULL. */
void gf_stall_end(const struct gf_stall_mark *mark, enum gf_timed kind, const char *name,
                  size_t size, const void *block);

#endif
