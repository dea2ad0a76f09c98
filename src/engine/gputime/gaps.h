/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gaps of one device. A gap is an interval in which the device had no work. For each gap, the
 * thread is known whose submission ended it.
 */
#ifndef GF_ENGINE_GPUTIME_GAPS_H
#define GF_ENGINE_GPUTIME_GAPS_H

#include "abi/gputime_api.h"
#include "engine/gputime/shares.h"

#include <sys/types.h>

#define GF_GAPS_LONGEST 8u

/* An interval in which the GPU was empty, until the next submission. */
struct gf_gpu_gap {
    uint64_t start_ns, ns;    /* the estimated start, and the length */
    enum gf_host_cause cause; /* the most frequent cause of its samples */
    pid_t ender;              /* the thread that submitted next; 0: no hook saw it */
};

struct gf_gaps {
    struct gf_submit_gap *shared;       /* a hook stores here the end of the present gap */
    uint64_t since_ns;                  /* the start of the present gap; 0: no gap is open */
    uint64_t seen[GF_HOST_CAUSE_COUNT]; /* number of samples in the present gap, by cause */
    _Atomic uint64_t count;
    _Atomic pid_t last_ender;
    _Atomic uintptr_t last_python; /* PyThreadState of the last ender that had one */
    _Atomic bool locked;           /* longest is being read or written */
    struct gf_gpu_gap longest[GF_GAPS_LONGEST];
};

/*
 * Called for each sample by the sampling thread. previous_ns: the time of the previous sample.
 * known: the state is known; empty: the device has nothing to do.
 */
void gf_gaps_see(struct gf_gaps *gaps, uint64_t previous_ns, uint64_t now, bool known, bool empty);
/* Counts the cause of the present sample, if there is a gap. */
void gf_gaps_cause(struct gf_gaps *gaps, enum gf_host_cause cause);

/* Any thread. Returns no gaps if the sampler holds the list for too long. */
void gf_gaps_read(struct gf_gaps *gaps, struct gf_gpu_gap ret[GF_GAPS_LONGEST]);

#endif
