/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/engine_api.h"
#include "base/fmt.h"
#include "engine/gputime/sampler.h"
#include "engine/report/transfer_sums.h"
#include "host/bind.h"
#include "host/facts.h"
#include "host/gpu.h"
#include "host/hint.h"
#include "host/locality.h"
#include "host/machine.h"
#include "host/memory_verdict.h"
#include "os/headroom.h"
#include "os/pressure.h"

/*
 * embedded.c: finds allocators that are contained in libraries of the process under other symbol
 * names than malloc. libgpufeed does not interpose them, so neither the placement nor the heap's
 * statistics cover their memory.
 */

#define GF_EMBEDDED_MAX 16

struct gf_embedded {
    struct gf_embedded_one {
        char object[96];       /* file name of the library, without its folder */
        const char *allocator; /* name of the allocator, such as "jemalloc" */
        /*
         * The exported symbol by which the allocator was found; NULL if it was found by the file
         * name.
         */
        const char *symbol;
    } one[GF_EMBEDDED_MAX];
    size_t count;
    /* Number of objects that were loaded and unloaded before the last reading. */
    unsigned long long changes;
};

/*
 * If objects were loaded or unloaded since the last reading, searches the symbol tables of all
 * objects. Takes some microseconds for each object, under the loader's lock, so no hook may call
 * this function.
 */
void gf_embedded_read(struct gf_embedded *embedded);

/*
 * growth.c: whether the program's memory grows with each step until the end, from readings that it
 * adds.
 */

#define GF_GROWTH_POINTS 32

struct gf_growth_point {
    uint64_t at_ms, steps;
    /* Resident bytes, without what the heap keeps of freed memory. */
    uint64_t anonymous, shared;
    uint64_t heap;   /* bytes that the program has allocated; UINT64_MAX: unknown */
    uint64_t pinned; /* bytes of the library's pinned mappings, which are shared memory */
};

/* Points have about the same distance in time: if there are too many, every second one is dropped. */
struct gf_growth {
    struct gf_growth_point points[GF_GROWTH_POINTS];
    unsigned count;
    enum gf_step_source source; /* of the numbers of steps */
    uint64_t gap_ms, next_ms;   /* when the next point is due */
};

/* Points with less than four further steps are ignored. If the source of steps changes, earlier ones are dropped. */
void gf_growth_add(struct gf_growth *growth, enum gf_step_source source,
                   const struct gf_growth_point *point);

/*
 * Writes a sentence, or nothing unless the memory has grown in all parts of the last three quarters of the
 * time. What grows less later, such as a cache or a warm-up, has no sentence.
 */
void gf_growth_say(const struct gf_growth *growth, struct gf_textbuf *out);

/* A decision about the placement, and its result. It does not change after it was published. */

#define GF_DECISION_GPUS 64

struct gf_decision {
    bool observe;       /* true with GPUFEED=observe: the verdict is not carried out */
    const char *choice; /* how the GPUs were chosen, as text */
    bool settled;
    unsigned rebindings; /* number of earlier decisions */
    struct gf_gpu gpus[GF_DECISION_GPUS];
    size_t gpu_count;
    struct gf_facts facts; /* the facts of the process when the decision was made */
    struct gf_verdict verdict;
    struct gf_probe probe;
    bool probed;

    bool bound; /* true if masks were set */
    /* The mask in force: that of the verdict or of the guard, or the start mask. */
    struct gf_cpus cpus;
    struct gf_bind_result bind;
    struct gf_threads threads; /* numbers of threads, read back after the binding */
    /* The policy in force; MPOL_DEFAULT if the kernel refused the verdict's policy. */
    int policy;
    int policy_error;
};

/*
 * The data of the report. engine/process fills it in. The functions in this folder that write
 * report and summary only format it. Only the holder of the report lock
 * (engine/process/process_state.h) may access it.
 */

#define GF_REPORT_SAMPLES 64
#define GF_REPORT_EVENTS 32

struct gf_report_sample {
    uint64_t at_ms; /* time since the engine started */
    struct gf_threads threads;
    struct gf_locality locality;
};

enum gf_report_event_kind {
    gf_report_rebound,    /* threads were moved to other CPUs, because another device was chosen */
    gf_report_widened,    /* the starvation guard widened the masks */
    gf_report_left,       /* copies or pinned allocations are left to the driver from now on */
    gf_report_standstill, /* no step ended for a long time */
    gf_report_resumed,    /* the standstill has ended */
    gf_report_ring,       /* the size of a staging ring changed; only the log has this event */
};

struct gf_report_event {
    enum gf_report_event_kind kind;
    uint64_t at_ms;
    char text[160];
};

/* Durations of the library's own work. */
struct gf_report_costs {
    uint64_t start_us;   /* reading machine and facts, inside cuInit */
    uint64_t sample_us;  /* reading the nodes of pages, on the library's thread */
    uint64_t migrate_us; /* moving pages, on the library's thread */
    uint64_t report_us;  /* writing reports */
    uint64_t thread_us;  /* CPU time of the library's thread */
};

struct gf_report_migration {
    bool wanted, done;
    bool stopped;   /* the time limit ended the move, and left_bytes were not moved */
    uint64_t bytes; /* bytes passed to mbind */
    uint64_t left_bytes;
    uint64_t calls, refused;
    int error;                     /* errno of the last failure */
    struct gf_pages before, after; /* the heap's pages before and after the move */
};

/* Results of the memory watch (src/engine/process/watch_thread.c). */
struct gf_report_memory {
    uint64_t readings; /* number of readings; 0 if there was nothing to watch */
    uint64_t purges;
    uint64_t min_headroom;
    struct gf_headroom headroom; /* the headroom at the last reading */
    struct gf_pressure pressure;
};

struct gf_process_counts {
    /* Threads bound when they started, or after they restored the start mask. */
    _Atomic unsigned late_threads;
    /* Numbers of threads that got a memory policy, and for which the kernel refused it. */
    _Atomic unsigned policy_threads, policy_refused;
    /* Largest number of threads of child processes that were bound at one time. */
    _Atomic unsigned peak_descendants;
    _Atomic uint64_t decide_us; /* total time of deciding and binding */
};

struct gf_report {
    /* facts of the process */
    const struct gf_preload *preload;
    pid_t pid;
    char program[256];
    char job[64];        /* the job's identifier (gf_launch_job); "" if none is set */
    uint64_t started_s;  /* wall clock */
    uint64_t started_ns; /* monotonic */
    uint64_t written_ms; /* wall clock, since 1970 */
    uint64_t ran_ms;
    bool ended; /* the report was written at a normal exit */

    const struct gf_machine *machine; /* NULL if it could not be read */
    const struct gf_facts *facts;
    const struct gf_hint *hint; /* the hint that this process inherited and used, or NULL */

    bool decided;
    struct gf_decision decision; /* the latest decision */

    /* results of binding */
    const struct gf_process_counts *counts;
    unsigned policy_kept; /* threads that still have the policy of an earlier placement */
    struct gf_report_migration migration;
    struct gf_report_memory memory;
    struct gf_embedded embedded;
    struct gf_report_transfers transfers;
    struct gf_gpu_time gpu_time;

    /* measurements */
    struct gf_report_sample samples[GF_REPORT_SAMPLES];
    size_t sample_count;
    struct gf_growth growth;
    struct gf_threads peak; /* the newest of the samples with the most threads of the program */
    struct gf_report_event events[GF_REPORT_EVENTS];
    size_t event_count;
    uint64_t guard_run_ns, guard_delay_ns, guard_throttled_ns;
    uint64_t driver_bytes; /* device memory allocated so far on all devices */
    struct gf_report_costs costs;
};
