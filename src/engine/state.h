/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's state: one process, one struct. Who may touch what:
 *   set once by gf_engine_start before it is published: door, pid, machine, facts, hint
 *   atomics, any thread: choice's counters, placement, wanted, counters
 *   the thread that serves requests (gf_serve): decision in the making, hint's environment
 *   the holder of the pen (gf_pen_take): report
 * Nobody waits for anybody, but for the exit, which waits a moment for the pen.
 */
#ifndef GF_ENGINE_STATE_H
#define GF_ENGINE_STATE_H

#include "hook/engine_api.h"
#include "host/facts.h"
#include "host/machine.h"
#include "observe/report.h"
#include "place/choice.h"
#include "place/hint.h"

#include <semaphore.h>

/* What is in force now: immutable once published, never freed (a process has a handful). */
struct gf_placement {
    unsigned epoch;          /* counts up from 1 */
    struct gf_cpus start;    /* threads with this mask are ours to bind */
    struct gf_cpus cpus;     /* and get this one; equal to start: nothing is bound */
    struct gf_cpus socket;   /* the guard's first step */
    bool bound;
    bool given_up;           /* the guard went back to the start mask: for good */
    bool submitters;         /* only threads that submit work are bound */
    int policy;              /* for threads whose mask is `cpus`; MPOL_DEFAULT: none */
    struct gf_nodes policy_nodes;
    int node;                /* the GPU's; -1 unknown or several */
    const struct gf_placement *before; /* what was in force before; NULL */
};

/* Requests to gf_serve. */
enum {
    gf_want_decide = 1,    /* the choice of devices may have changed */
    gf_want_patience = 2,  /* time is up: decide with what is there */
    gf_want_rescan = 4,    /* bind threads that went back to the start mask */
    gf_want_socket = 8,    /* the guard's steps */
    gf_want_start = 16,
};

struct gf_process {
    const struct gf_door *door;
    pid_t pid;
    pid_t watcher; /* the library's own thread */
    bool dead;    /* in a forked child, or at exit: do nothing any more */
    uint64_t started_ns;
    uint64_t cuda_since; /* gf_tasks_now of then: cuInit has just succeeded */

    struct gf_machine *machine; /* NULL: could not be read */
    int machine_error;
    struct gf_facts facts;
    struct gf_hint hint; /* valid when hinted */
    bool hinted;

    struct gf_choice choice;
    struct gf_placement *placement; /* atomic; NULL: nothing decided */
    struct gf_decision *decision;   /* atomic; immutable once published, never freed */
    uint64_t decided_ns;            /* when it was first decided */

    unsigned wanted, serving; /* gf_serve */

    /* counters, atomic */
    unsigned late_threads, policy_threads, policy_refused;
    uint64_t decide_us;
    unsigned peak_descendants;

    sem_t wake; /* posted to make the engine's thread look at once */
    bool asked; /* atomic: for gf_prepare */

    bool pen; /* atomic: somebody works on report */
    struct gf_report report;
};

extern struct gf_process gf_process;

static inline const struct gf_placement *gf_placement(void)
{
    return __atomic_load_n(&gf_process.placement, __ATOMIC_ACQUIRE);
}

static inline const struct gf_decision *gf_decision(void)
{
    return __atomic_load_n(&gf_process.decision, __ATOMIC_ACQUIRE);
}

static inline bool gf_dead(void)
{
    return __atomic_load_n(&gf_process.dead, __ATOMIC_RELAXED);
}

/* serve.c: carries requests out, on this thread or on the one that is at it already. */
void gf_serve(unsigned wanted);

/* gpu.c: what the driver says of a device. attributes: ask for the node too. */
void gf_gpu_read(int device, bool attributes, struct gf_gpu *ret);
/* Its PCI id in lower case; false where the driver does not say. */
bool gf_gpu_bdf(int device, char *ret, size_t size);
/* nvml.c: asks NVML for every device's node, where the process itself has loaded NVML. At start. */
void gf_nvml_read(void);
/* What it said; -1. */
int gf_nvml_node(int device);

/* decide.c: the decision for the devices chosen now, carried out and published. */
void gf_decide(void);

/* bind.c: all below keep errno and take no lock. */
bool gf_thread_skipped(void *closure, pid_t tid);
enum gf_mask_owner gf_thread_owner(pid_t tid);
/* Masks from one to another: own threads, and descendants too. */
void gf_bind_move(const struct gf_cpus *from, const struct gf_cpus *to, bool descendants,
                  struct gf_bind_result *ret);
/* The calling thread's share of what is in force: policy, and mask when it is a submitter. */
void gf_thread_settle(bool submits);
/* Its policy, if it inherited that from a process that bound. */
void gf_thread_take_back(void);
void gf_rescan(void);
void gf_widen(bool to_start);

/* transfer.c: copies and pinned memory; NULL where none of it is wanted. */
const struct gf_transfer_ops *gf_transfers(void);
/* Does what copies asked for. On our thread, which is woken for it. */
void gf_transfers_prepare(void);
/* What became of the copies so far, as lines for GPUFEED_VERBOSE=2. */
void gf_transfers_say(void);
/* The same for the report. Any thread; makes no CUDA call. */
void gf_transfers_read(struct gf_transfer_report *ret);

/* thread.c */
void gf_thread_watch(void);
uint64_t gf_elapsed_ms(void);

/* keep.c: a look at memory when one is due; returns when the next is. Once started. */
void gf_keep_start(void);
uint64_t gf_keep_watch(uint64_t now_ns);

/* migrate.c: moves what the heap holds until the deadline; true while there is more to do. */
bool gf_migrate_step(uint64_t deadline_ns);
/* The heap's mappings; the caller frees *ret (NULL: no memory). */
size_t gf_heap_ranges(struct gf_range **ret);

/* intervals.c: tells what threads met around their calls since the last look. On our thread. */
void gf_intervals_look(void);

/* output.c */
bool gf_pen_take(unsigned wait_ms);
void gf_pen_give(void);
void gf_output_sample(bool final);
void gf_output_report(bool ended);
/* At the start: warns of names that do not mean what they seem to, and where one file would replace another. */
void gf_output_check(void);
/* An event that was already said: for the log and the report. */
void gf_output_note(enum gf_report_event_kind kind, const char *text);
void gf_output_event(enum gf_report_event_kind kind, const char *format, ...) GF_PRINTF(2, 3);
void gf_output_decision(const struct gf_decision *decision);

#endif
