/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stalls: a call that exceeds its threshold is counted for the report and logged. Nothing here
 * allocates, takes a lock or changes errno. Any thread.
 */
#ifndef GF_PRELOAD_TRACE_STALL_H
#define GF_PRELOAD_TRACE_STALL_H

#include "preload/trace/cause.h"
#include "preload/trace/latency.h"

/* Watches heap calls from now on. Idempotent. Called after the allocator is decided. */
void gf_stall_watch(uint64_t threshold_ns);

/*
 * Watches driver calls from now on, too. Stalls of children that are forked from now on count as
 * this process's. After a slow driver call, current_gpu returns the GPU of the current context. If
 * wait_threshold_ns is 0, no wait is a stall.
 */
typedef bool gf_stall_current_gpu(struct gf_stall_gpu *ret);
void gf_stall_watch_driver(uint64_t threshold_ns, uint64_t wait_threshold_ns,
                           gf_stall_current_gpu *current_gpu);

/*
 * Sets the only GPU that the process feeds, for stalls of the heap; NULL if it feeds several. Only
 * the first 8 GPUs are recorded.
 */
void gf_stall_set_gpu(const struct gf_stall_gpu *gpu);

/*
 * The stalls so far, for each cause: this process's, and its children's if they share the counts.
 */
void gf_stall_counts(struct gf_stall_count ret[GF_CAUSE_COUNT]);

/*
 * Called around a driver call. Only some calls are timed: four of a thread's waits for the GPU in
 * about half a millisecond, and four of its small copies in sixteen times as long. A wait is a
 * stall only if the GPU was idle when it began.
 */
struct gf_stall_mark {
    uint64_t start_ns; /* 0 if the call is not timed */
    bool idle;         /* for a wait: the GPU was idle */
    struct gf_slowpath_usage before;
};
void gf_stall_begin(struct gf_stall_mark *mark, enum gf_timed kind, size_t size);
/*
 * Whether to ask the driver if the GPU is idle. A query takes the driver's locks, which
 * delays other threads (bench/NOTES.md). So all threads together spend at most a two-hundredth of
 * the time on queries.
 *
 * That is one query per 2.5 ms in the long run and 40 in a burst. A program that waits a few times
 * per step has each wait queried. No copy is queried in the first 20 ms after the process's first
 * copy.
 */
bool gf_stall_should_query(const struct gf_stall_mark *mark, enum gf_timed kind);
/* Passes the query's answer. The call's duration is counted from now on. */
void gf_stall_query_done(struct gf_stall_mark *mark, bool idle);
/* block: host memory that the call returned or received, or NULL. */
void gf_stall_end(const struct gf_stall_mark *mark, enum gf_timed kind, const char *name,
                  size_t size, const void *block);

#endif
