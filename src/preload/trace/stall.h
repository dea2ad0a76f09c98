/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stall is a call that takes longer than its threshold. Stalls are counted for the report, and
 * logged. No function here allocates, takes a lock or changes errno. The functions may be called on
 * any thread.
 */
#pragma once

#include "preload/trace/cause.h"
#include "preload/trace/latency.h"

/* Starts watching heap calls. Idempotent. Called after the heap's mode was decided. */
void gf_stall_watch(uint64_t threshold_ns);

/*
 * Starts watching driver calls. Stalls of children that are forked later are added to the counts of
 * this process. current_gpu is called after a slow driver call, and returns the GPU of the current
 * context. If wait_threshold_ns is 0, no wait is a stall.
 */
typedef bool gf_stall_current_gpu(struct gf_stall_gpu *ret);
void gf_stall_watch_driver(uint64_t threshold_ns, uint64_t wait_threshold_ns,
                           gf_stall_current_gpu *current_gpu);

/*
 * Sets the GPU to be named in log lines about stalls of the heap. NULL: the process uses several
 * GPUs. After 8 calls with a GPU, each further call has the same effect as NULL.
 */
void gf_stall_set_gpu(const struct gf_stall_gpu *gpu);

/*
 * Called before and after a driver call. To limit the cost, at most four waits of a thread are
 * timed in each window of about half a millisecond. Blocking copies count as waits; for small ones,
 * the window is sixteen times as long. Driver calls that are not waits are always timed. A wait is
 * a stall only if the GPU was idle when the wait began.
 */
struct gf_stall_mark {
    uint64_t start_ns; /* 0 if the call is not timed */
    bool idle;         /* for a wait: the GPU was idle when the wait began */
    struct gf_slowpath_usage before;
};
void gf_stall_begin(struct gf_stall_mark *mark, enum gf_timed kind, size_t size);
/*
 * Whether the caller should ask the driver whether the GPU is idle. Such a query takes the driver's
 * locks, which delays other threads (bench/NOTES.md). So all threads together spend at most 1/200
 * of the time on queries.
 *
 * In the long run there is at most one query per 2.5 ms, and in a burst there are at most 40. If a
 * program waits only a few times per step, there is a query before each wait. For 20 ms after the
 * process's first copy, there is no query before a copy.
 */
bool gf_stall_should_query(const struct gf_stall_mark *mark, enum gf_timed kind);
/* Passes the query's answer. If the GPU is idle, the measured duration starts now. */
void gf_stall_query_done(struct gf_stall_mark *mark, bool idle);
/* block: the host memory that the driver call allocated or got as an argument, or NULL. */
void gf_stall_end(const struct gf_stall_mark *mark, enum gf_timed kind, const char *name,
                  size_t size, const void *block);
