/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/engine_api.h"
#include "base/atomic.h"
#include "engine/report/report_data.h"
#include "host/choice.h"
#include "host/facts.h"
#include "host/hint.h"
#include "host/machine.h"

#include <semaphore.h>

/*
 * The state that several modules of the engine share. There is one struct for the process.
 *
 * Access to members:
 *   written by gf_engine_start before the engine is published, constant afterwards: preload, pid,
 *   thread, started_ns, cuda_since, facts, hint, hinted;
 *   atomic, any thread: dead, placement, decision, counts, and the first part of choice;
 *   the thread that serves requests (gf_requests_serve): the rest of choice, decided_ns, machine's
 *   list of GPUs;
 *   the holder of the report lock (process_state.h): report.
 */

/*
 * A placement: the masks and the policy that threads get. It does not change after it was
 * published. It is never freed, because a process has only a few placements.
 */
struct gf_placement {
    unsigned epoch;       /* sequence number, from 1 */
    struct gf_cpus start; /* only threads with this mask are bound */
    /* The mask that these threads get; equal to `start` if nothing is bound. */
    struct gf_cpus cpus;
    struct gf_cpus socket; /* the mask of the starvation guard's first step */
    bool bound;
    bool given_up;   /* the guard has restored the start mask permanently */
    bool submitters; /* only threads that submit work are bound */
    int policy;      /* memory policy of threads with the mask `cpus`; MPOL_DEFAULT: none */
    struct gf_nodes policy_nodes;
    int node;                          /* the GPU's node; -1 if unknown or several */
    const struct gf_placement *before; /* the placement before this one, or NULL */
};

struct gf_process {
    const struct gf_preload *preload; /* NULL until gf_engine_start */
    pid_t pid;
    pid_t thread;      /* the library's own thread */
    _Atomic bool dead; /* true in a forked child and at exit: the engine does nothing more */
    uint64_t started_ns;
    uint64_t cuda_since; /* time at which cuInit succeeded (gf_tasks_now) */

    struct gf_machine *machine; /* NULL if it could not be read */
    struct gf_facts facts;
    struct gf_hint hint; /* valid only if hinted is true */
    bool hinted;

    struct gf_choice choice;
    struct gf_placement *_Atomic placement; /* NULL until a decision has been carried out */
    /* NULL before the first decision; a decision is never changed or freed. */
    struct gf_decision *_Atomic decision;
    uint64_t decided_ns; /* time of the first decision */

    struct gf_process_counts counts;

    sem_t wake; /* posted to wake the library's thread */
    struct gf_report report;
};

extern struct gf_process gf_process;

static inline const struct gf_placement *gf_process_placement(void)
{
    return gf_load_acquire(&gf_process.placement);
}

static inline const struct gf_decision *gf_process_decision(void)
{
    return gf_load_acquire(&gf_process.decision);
}

static inline bool gf_process_dead(void)
{
    return gf_load_relaxed(&gf_process.dead);
}

/* Returns the milliseconds since the engine started. */
uint64_t gf_process_elapsed_ms(void);
/* Whether the process runs under compute-sanitizer. If so, cuInit has loaded the tool's library. */
bool gf_process_under_sanitizer(void);

/*
 * Gets the heap's mappings. Returns the number of elements of *ret, which the caller frees. *ret is
 * NULL if memory is exhausted.
 */
size_t gf_process_heap_ranges(struct gf_range **ret);

/*
 * The lock of gf_process.report. The library's thread may hold it during a sample, so a thread of
 * the program waits for it only for a limited time. If the process forks while the lock is held,
 * the lock stays locked in the child. This is harmless, because the engine does nothing in the
 * child.
 */

/*
 * Takes the lock. Waits up to wait_ms milliseconds; 0: does not wait. Returns false if another
 * thread held the lock during this time, or if the engine has ended.
 */
bool gf_report_lock(unsigned wait_ms);
void gf_report_unlock(void);

/*
 * Records events of this process for the log and the report. The functions may be called on any
 * thread, and take no lock.
 */

/* Writes an event to the log, and keeps it for the report. Prints nothing. */
void gf_events_record(enum gf_report_event_kind kind, const char *text);

/* Like gf_events_record, but first prints the text on standard error at GPUFEED_VERBOSE=1. */
void gf_events_announce(enum gf_report_event_kind kind, const char *format, ...) GF_PRINTF(2, 3);

/* Prints a line about a decision on standard error, and writes the decision's event to the log. */
void gf_events_announce_decision(const struct gf_decision *decision);

/* Copies all events so far into the report. */
void gf_events_collect(struct gf_report *report);
