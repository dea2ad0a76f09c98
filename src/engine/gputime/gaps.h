/* SPDX-License-Identifier: Apache-2.0 */
/* The gaps of one device: times in which it was empty, with the thread that ended each. */
#ifndef GF_ENGINE_GPUTIME_GAPS_H
#define GF_ENGINE_GPUTIME_GAPS_H

#include "abi/gputime_api.h"
#include "engine/gputime/shares.h"

#include <sys/types.h>

#define GF_GAPS_LONGEST 8u

/* A time in which the GPU was empty, which the next submission ended. */
struct gf_gpu_gap {
    uint64_t start_ns, ns;    /* when it began, at the earliest by the sample that saw it */
    enum gf_host_cause cause; /* at most of its samples */
    pid_t ender;              /* the thread that submitted; 0 if that was not seen */
};

struct gf_gaps {
    struct gf_submit_gap *shared;       /* the hooks end the present gap there */
    uint64_t since_ns;                  /* 0: there is no present gap */
    uint64_t seen[GF_HOST_CAUSE_COUNT]; /* samples of the present gap, by cause */
    _Atomic uint64_t count;
    _Atomic pid_t last_ender;
    _Atomic uintptr_t last_python; /* the PyThreadState of an ender; one without keeps it */
    _Atomic bool locked;           /* longest is being read or written */
    struct gf_gpu_gap longest[GF_GAPS_LONGEST];
};

/*
 * Called for each sample by the sampling thread. previous_ns: the time of the sample before. known:
 * the state is known; empty: the device has nothing to do.
 */
void gf_gaps_see(struct gf_gaps *gaps, uint64_t previous_ns, uint64_t now, bool known, bool empty);
/* The cause of the present sample, if there is a gap. */
void gf_gaps_cause(struct gf_gaps *gaps, enum gf_host_cause cause);

/* Any thread. Zero gaps if the list is being changed for longer than a moment. */
void gf_gaps_read(struct gf_gaps *gaps, struct gf_gpu_gap ret[GF_GAPS_LONGEST]);

#endif
