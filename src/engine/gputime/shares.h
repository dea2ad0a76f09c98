/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/gputime_api.h"
#include "base/atomic.h"
#include "base/base.h"

/*
 * Computes how a GPU's time divides into states, from samples at random times. Each sample counts
 * for half of the interval before it and half of the interval after it, so the shares sum to the
 * whole time. Only one thread may add samples. Any thread may read the shares at the same time.
 */

/* abi/reasons.def says what the states and causes mean. */
enum gf_gpu_state {
#define GF_STATE(name, words) gf_gpu_##name,
#include "abi/reasons.def"
    GF_GPU_STATE_COUNT,
};
const char *gf_gpu_state_name(enum gf_gpu_state state);

enum gf_host_cause {
#define GF_HOST(name, words, meaning, remedy) gf_host_##name,
#include "abi/reasons.def"
    GF_HOST_CAUSE_COUNT,
};
const char *gf_host_cause_name(enum gf_host_cause cause);

/* Why a sample is late is one of the first causes. */
#define GF_LATE_CAUSES ((unsigned)gf_host_preempted + 1U)

/*
 * Sums are kept as of times of which each is at least a quarter longer than the one before. So one of
 * them is usually between two fifths and a half of the whole time.
 */
#define GF_SHARE_MARKS 5u

/* The sums of the start of the sampled time: its length, and the empty time by cause. */
struct gf_gpu_start {
    uint64_t ns, cause_ns[GF_HOST_CAUSE_COUNT];
};

struct gf_gpu_sample {
    uint64_t at_ns;
    enum gf_gpu_state state;
    enum gf_host_cause cause; /* the cause if the GPU is empty or the sample is late */
    /*
     * The cause is a wait for the GPU that is over. If the thread goes on with something else, that
     * was the cause.
     */
    bool undecided;
    /* True if no work was submitted between the previous sample and this one. */
    bool quiet;
    bool late; /* true if the interval before this sample is much longer than planned */
};

struct gf_gpu_shares {
    _Atomic uint64_t state_ns[GF_GPU_STATE_COUNT];
    _Atomic uint64_t cause_ns[GF_HOST_CAUSE_COUNT]; /* the sum is state_ns[gf_gpu_empty] */
    /* The part of state_ns[gf_gpu_unknown] before late samples, by the cause of the delay. */
    _Atomic uint64_t late_ns[GF_LATE_CAUSES];
    /* Total of the intervals between two empty samples in which nothing was submitted. */
    _Atomic uint64_t exact_ns;
    _Atomic uint64_t samples;
    struct {
        _Atomic uint64_t ns, cause_ns[GF_HOST_CAUSE_COUNT];
    } mark[GF_SHARE_MARKS];
    /* Used only by the thread that adds samples. */
    struct gf_gpu_sample last;
    uint64_t undecided_ns; /* empty time before the last sample that is not in the sums yet */
    uint64_t marks, next_mark_ns;
};

/* Returns true if the whole time has grown by a quarter since it last returned true. */
bool gf_gpu_shares_add(struct gf_gpu_shares *shares, const struct gf_gpu_sample *sample);
/*
 * Reads the sums of the start, which is at most half of the whole time and at most 10 minutes; `ns` is 0
 * in the first seconds and after about 20 minutes. May be called on any thread.
 */
void gf_gpu_shares_start(struct gf_gpu_shares *shares, struct gf_gpu_start *ret);

/*
 * Records the gaps of one device. A gap is an interval in which the device had no work. Each gap is
 * recorded with the thread whose submission ended it.
 */

#define GF_GAPS_LONGEST 8u

/* A gap: an interval in which the GPU was empty. It ends with the next submission. */
struct gf_gpu_gap {
    uint64_t start_ns, ns;    /* estimated start and length of the gap */
    enum gf_host_cause cause; /* the cause of most samples in the gap */
    pid_t ender;              /* the thread whose submission ended the gap; 0 if no hook saw it */
};

struct gf_gaps {
    struct gf_submit_gap *shared;       /* where a hook stores the end of the present gap */
    uint64_t since_ns;                  /* the start of the present gap; 0: no gap is open */
    uint64_t seen[GF_HOST_CAUSE_COUNT]; /* number of samples in the present gap, by cause */
    _Atomic uint64_t open_ns; /* length of the present gap until the last sample; 0: none is open */
    _Atomic unsigned open_most; /* the cause of most samples in it */
    _Atomic uint64_t count;
    _Atomic pid_t last_ender;
    /* PyThreadState and id of the last thread that ended a gap and had one. */
    _Atomic uintptr_t last_python;
    _Atomic pid_t last_python_tid;
    _Atomic bool locked; /* true while a thread reads or writes `longest` */
    struct gf_gpu_gap longest[GF_GAPS_LONGEST];
};

/*
 * Called on the sampler's thread for each sample. previous_ns: the time of the previous sample.
 * known: whether the device's state is known. empty: whether the device has nothing to do.
 */
void gf_gaps_see(struct gf_gaps *gaps, uint64_t previous_ns, uint64_t now, bool known, bool empty);
/* If a gap is open, counts one sample with this cause. */
void gf_gaps_cause(struct gf_gaps *gaps, enum gf_host_cause cause);

/*
 * Copies the longest gaps that have ended, none if the sampler holds the list for too long. *ret_open: the
 * present gap, of which only the length and the cause are known; the length is 0 if none is open. May be called on any thread.
 */
void gf_gaps_read(struct gf_gaps *gaps, struct gf_gpu_gap ret[GF_GAPS_LONGEST],
                  struct gf_gpu_gap *ret_open);

/* Takes the approximate time of a launch of a graph. */
typedef void gf_graph_steps_fn(uint64_t ns, uint64_t graph);

/*
 * Finds the graphs that were launched since the last sample, from the counts of the hooks, which
 * read no clock. A launch is known as of half an interval between samples. Used on the sampler's
 * thread only. before_ns, now: the times of the last sample and of this one.
 */
void gf_graph_steps_see(struct gf_submit_table *table, uint64_t before_ns, uint64_t now,
                        gf_graph_steps_fn *launched);
