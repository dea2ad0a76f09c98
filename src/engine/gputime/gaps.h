/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records the gaps of one device. A gap is an interval in which the device had no work. Each gap is
 * recorded with the thread whose submission ended it.
 */
#ifndef GF_ENGINE_GPUTIME_GAPS_H
#define GF_ENGINE_GPUTIME_GAPS_H

#include "abi/gputime_api.h"
#include "engine/gputime/shares.h"

#include <sys/types.h>

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
    _Atomic uint64_t count;
    _Atomic pid_t last_ender;
    /* PyThreadState of the last thread that ended a gap and had one. */
    _Atomic uintptr_t last_python;
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
 * Copies the longest gaps. Returns no gaps if the sampler holds the list for too long. May be
 * called on any thread.
 */
void gf_gaps_read(struct gf_gaps *gaps, struct gf_gpu_gap ret[GF_GAPS_LONGEST]);

#endif
