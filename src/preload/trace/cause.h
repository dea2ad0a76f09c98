/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/trace_api.h"
#include "os/pressure.h"
#include "preload/heap/slowpath.h"

/* Finds the cause of a slow call from measurements. A pure function. */

/*
 * Kinds of driver calls. The cause of a wait is determined only if the GPU was idle when the wait
 * began.
 */
enum gf_driver_call {
    gf_driver_none,
    gf_driver_call, /* a call in which programs expect no wait */
    gf_driver_wait, /* waits for a stream or an event */
    gf_driver_copy, /* a blocking copy, which may have waited for copies of other streams */
};

struct gf_evidence {
    const struct gf_slowpath *slow;
    struct gf_stall_gpu gpu;       /* the GPU of the call's context, or the process's only GPU */
    struct gf_slowpath_usage used; /* the thread's usage during the call */
    struct gf_pressure_counters pressure; /* increase of each counter during the call */
    /*
     * Used only if `pressure` is unknown: how long the CPU quota has throttled the cgroup since an
     * earlier stall. A part of that time may lie before this call.
     */
    uint64_t throttled_before_us;
    bool single_threaded; /* the process has one thread, so no other thread can hold a lock */
    enum gf_driver_call driver;
};

struct gf_finding {
    enum gf_cause cause;
    bool may_be_pause;           /* if true, a pause of the process during the call is the cause */
    enum gf_cause without_pause; /* the cause if the process was not paused */
    char text[160];
};

void gf_cause_find(const struct gf_evidence *evidence, struct gf_finding *ret);

/*
 * How many stalls had each cause, and how long they took. No function here allocates. The functions
 * may be called on any thread.
 */

/* Children that are forked from now on add to this process's counts. */
void gf_stall_count_share(void);

void gf_stall_count_add(enum gf_cause cause, uint64_t us);
/*
 * Moves a stall of `us` microseconds from the counts of the cause `from` to those of the cause
 * `to`.
 */
void gf_stall_count_move(enum gf_cause from, enum gf_cause to, uint64_t us);

/* Returns the stalls until now by cause, of this process and of children that share the counts. */
void gf_stall_counts(struct gf_stall_count ret[GF_CAUSE_COUNT]);
