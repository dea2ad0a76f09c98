/* SPDX-License-Identifier: Apache-2.0 */
/* Why a call took so long, from what was measured about it: a pure function. */
#ifndef GF_OBSERVE_CAUSE_H
#define GF_OBSERVE_CAUSE_H

#include "heap/slow.h"

#define GF_CAUSES(X)                                                                               \
    X(unknown) X(lock) X(purge) X(map) X(faults) X(copy) X(compaction) X(reclaim) X(swap) X(fork)  \
    X(setup) X(preempted) X(paused) X(gpu) X(throttled)

enum gf_cause {
#define GF_CAUSE(name) gf_cause_##name,
    GF_CAUSES(GF_CAUSE)
#undef GF_CAUSE
    GF_CAUSE_COUNT,
};

/* Totals of the machine and of the memory group, read before and after a call that moves much. */
struct gf_strain {
    bool known;
    uint64_t compactions; /* direct ones: vmstat compact_stall */
    uint64_t reclaims;    /* direct ones: vmstat allocstall_* */
    uint64_t huge;        /* faults that were given a huge page: vmstat thp_fault_alloc */
    uint64_t high, max;   /* memory.events of the group; 0 where it is hidden */
    bool waits_known;     /* whether there is the group's memory.pressure */
    uint64_t waited_us;   /* its total: for so long some task of the group waited for memory */
    uint64_t throttled_us; /* cpu.stat of the group; 0 where it is hidden */
};

/* As the report names it. */
struct gf_stall_gpu {
    int device; /* -1: not known, or several */
    char pci[20];
};

/* Calls of the driver's. What waits for the GPU is judged only if there was nothing to wait for. */
enum gf_driver_call {
    gf_driver_none,
    gf_driver_call, /* one that nobody expects to wait */
    gf_driver_wait, /* for a stream or an event */
    gf_driver_copy, /* a blocking copy; other streams' transfers may have been before it */
};

struct gf_evidence {
    const struct gf_slow *slow;
    struct gf_stall_gpu at; /* the GPU of the call's context, or the process's one */
    struct gf_slow_usage used; /* by the thread since slow->before */
    struct gf_strain risen;
    /* Since some earlier stall, where risen is not known: the call may have been in it. */
    uint64_t throttled_before_us;
    bool alone;  /* the process has one thread: nobody else can hold its locks */
    enum gf_driver_call driver;
};

struct gf_finding {
    enum gf_cause cause;
    bool stopped; /* if the process was stopped meanwhile, that is the cause */
    enum gf_cause otherwise; /* and this is, if it is known not to have been */
    char text[160];
};

void gf_cause_find(const struct gf_evidence *evidence, struct gf_finding *ret);
const char *gf_cause_name(enum gf_cause cause);

#endif
