/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slow call becomes an event: counted for the report, and a line of the log. Nothing here
 * allocates, takes a lock or changes errno.
 */
#ifndef GF_OBSERVE_STALL_H
#define GF_OBSERVE_STALL_H

#include "observe/cause.h"
#include "observe/latency.h"

struct gf_stall_count {
    uint64_t calls, us;
};

/* Starts watching the heap. Idempotent; once jemalloc serves malloc. */
void gf_stall_watch(uint64_t threshold_ns);

/*
 * From now on the driver's calls are watched too, and stalls of children that are forked from now on
 * are counted with this process's. current_gpu tells the one whose context is current, after a call of
 * the driver's that was slow.
 */
typedef bool gf_stall_current_gpu(struct gf_stall_gpu *ret);
void gf_stall_watch_driver(uint64_t threshold_ns, uint64_t wait_threshold_ns,
                           gf_stall_current_gpu *current_gpu);

/* The one GPU that the process feeds, for events of the heap; NULL: there are several. Rare calls. */
void gf_stall_gpu_known(const struct gf_stall_gpu *gpu);

/* Stalls so far, by cause. */
void gf_stall_counts(struct gf_stall_count ret[GF_CAUSE_COUNT]);

/*
 * Around a call of the driver's. Of a thread's waits for the GPU four in half a millisecond or so are
 * measured, of its small copies four in some more; one is no stall if the GPU was not idle.
 */
struct gf_stall_mark {
    uint64_t start_ns; /* 0: nobody watches */
    bool idle;         /* of a wait: there was nothing to wait for */
    struct gf_slow_usage before;
};
void gf_stall_begin(struct gf_stall_mark *mark, enum gf_timed kind, size_t size);
/*
 * Whether to find that out. Each question takes the driver's locks: 16 threads that copied 4 KiB each lost a
 * twentieth to them. So all threads together spend a two-hundredth of the time on it and ask no more than each
 * 2.5 ms, but forty times in a row: of a program that waits at each step, in several calls, each is asked about.
 * Copies are not in the 20 ms behind a process's first: the first question takes a fifth of a small one.
 */
bool gf_stall_asks(const struct gf_stall_mark *mark, enum gf_timed kind);
/* The answer. idle: there was nothing to wait for; the clock starts now. */
void gf_stall_asked(struct gf_stall_mark *mark, bool idle);
/* block: host memory that the call gave or was given, or NULL. */
void gf_stall_end(const struct gf_stall_mark *mark, enum gf_timed kind, const char *name,
                  size_t size, const void *block);

/* The step that the program says it is in; 0: none. */
void gf_stall_step(uint64_t step);

#endif
