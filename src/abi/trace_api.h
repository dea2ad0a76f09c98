/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

/* Stalls and durations of calls, which the engine reports: causes, kinds of timed calls, counts. */

#define GF_CAUSES(X)                                                                               \
    X(unknown)                                                                                     \
    X(lock)                                                                                        \
    X(purge)                                                                                       \
    X(map)                                                                                         \
    X(faults)                                                                                      \
    X(copy)                                                                                        \
    X(compaction)                                                                                  \
    X(reclaim)                                                                                     \
    X(swap)                                                                                        \
    X(fork)                                                                                        \
    X(setup)                                                                                       \
    X(preempted)                                                                                   \
    X(paused)                                                                                      \
    X(gpu)                                                                                         \
    X(throttled)

enum gf_cause {
#define GF_CAUSE(name) gf_cause_##name,
    GF_CAUSES(GF_CAUSE)
#undef GF_CAUSE
        GF_CAUSE_COUNT,
};

/* Returns the name that log and report use. May be called on any thread. */
static inline const char *gf_cause_name(enum gf_cause cause)
{
    static const char *const names[] = {
#define GF_CAUSE(name) #name,
        GF_CAUSES(GF_CAUSE)
#undef GF_CAUSE
    };
    return cause < GF_CAUSE_COUNT ? names[cause] : "unknown";
}

struct gf_stall_count {
    uint64_t calls, us;
};

/* Adds up the stalls of all causes. */
static inline struct gf_stall_count gf_stall_sum(const struct gf_stall_count counts[GF_CAUSE_COUNT])
{
    struct gf_stall_count ret = {0};

    for (unsigned i = 0; i < GF_CAUSE_COUNT; i++) {
        ret.calls += counts[i].calls;
        ret.us += counts[i].us;
    }
    return ret;
}

/* A GPU, identified as in the report. */
struct gf_stall_gpu {
    int device; /* -1: the GPU is unknown, or there are several */
    char pci[20];
};

/*
 * Kinds of calls whose durations are counted: the name in the code, and the name in log and report.
 */
#define GF_TIMED_KINDS(X)                                                                          \
    X(malloc, "malloc")                                                                            \
    X(calloc, "calloc")                                                                            \
    X(realloc, "realloc")                                                                          \
    X(memalign, "memalign")                                                                        \
    X(free, "free")                                                                                \
    X(driver_alloc, "cuda_alloc")                                                                  \
    X(driver_free, "cuda_free")                                                                    \
    X(driver_pin, "cuda_pin")                                                                      \
    X(driver_unpin, "cuda_unpin")                                                                  \
    X(driver_wait, "cuda_wait") /* synchronisations */                                             \
    X(driver_copy, "cuda_copy") /* blocking copies */

enum gf_timed {
#define GF_TIMED_KIND(kind, name) gf_timed_##kind,
    GF_TIMED_KINDS(GF_TIMED_KIND)
#undef GF_TIMED_KIND
        GF_TIMED_COUNT,
};

/* Returns the name that log and report use. May be called on any thread. */
static inline const char *gf_timed_name(enum gf_timed kind)
{
    static const char *const names[] = {
#define GF_TIMED_KIND(kind, name) name,
        GF_TIMED_KINDS(GF_TIMED_KIND)
#undef GF_TIMED_KIND
    };
    return kind < GF_TIMED_COUNT ? names[kind] : "other";
}

struct gf_latency {
    enum gf_timed kind;
    /*
     * The largest size in the call's size class, in bytes. 0: the size is unknown. UINT64_MAX: the
     * class has no largest size.
     */
    uint64_t size_to;
    /* -1: the sum of all threads; 0: the sum of the threads that have no row of their own. */
    pid_t tid;
    uint64_t count, total_ns;
    /* A percentile is the upper end of the histogram bucket that contains it. max_ns is exact. */
    uint64_t p50_ns, p99_ns, p999_ns, max_ns;
};

typedef void gf_latency_fn(void *closure, const struct gf_latency *row);

/* The steps that the program marks by gpufeed_step, and those that are detected without marks. */

#define GF_STEPS_LONGEST 8u
#define GF_STEP_ENGINE_FACTS 48u
#define GF_STEP_FACTS (GF_CAUSE_COUNT + GF_STEP_ENGINE_FACTS)

struct gf_step_count {
    uint64_t ended; /* steps that a later mark ended */
    /* Microseconds from the program's first mark to its latest one; 0 before the second mark. */
    uint64_t us;
    uint64_t current; /* number of the current step; 0 before the first */
};

/* How steps were found: the name in the report. The first that applies counts. */
#define GF_STEP_SOURCES(X)                                                                         \
    X(none)                                                                                        \
    X(marks)                                                                                       \
    X(copies) /* the period of copies of one size to the GPU */                                    \
    X(graphs) /* the period of launches of one graph */                                            \
    X(waits)  /* the period of one function that waits for the GPU */

enum gf_step_source {
#define GF_STEP_SOURCE(name) gf_step_##name,
    GF_STEP_SOURCES(GF_STEP_SOURCE)
#undef GF_STEP_SOURCE
};

/*
 * What may make a step slow, as sums. The first GF_CAUSE_COUNT values are the ns that calls of this
 * process stalled, by cause. The engine publishes the others (engine/gputime/step_facts.h).
 */
struct gf_step_facts {
    uint64_t value[GF_STEP_FACTS];
};

/* The durations of steps. */
struct gf_step_times {
    enum gf_step_source source;
    uint64_t bytes; /* size of the copy; 0 for other sources */
    uint64_t steps, total_ns;
    uint64_t last_ns; /* when the last step ended; 0 if the program is between two marked steps */
    /* The percentiles are exact within 4 %, the maximum is exact. */
    uint64_t p50_ns, p99_ns, max_ns;
    uint64_t slow_steps; /* how many took more than 1.5 times the median, within 4 % */
    /* The longest of them; longest first. ns 0: no further one. */
    struct gf_slow_step {
        uint64_t start_ns, ns;
        bool settled; /* the engine has published its facts of the time after the step */
        struct gf_step_facts facts; /* the part of the sums that arose in this step */
    } slow[GF_STEPS_LONGEST];
    bool has_facts;               /* the engine has published its facts */
    struct gf_step_facts typical; /* the mean facts of a step that is not in `slow` */
};

struct gf_python_line {
    char file[128]; /* only the end of a path that is longer */
    char function[64];
    int line; /* 0: not known */
};

/* Copies of pageable memory that waited for earlier work of their own stream. */

#define GF_COPY_WAIT_LINES 16u

struct gf_copy_wait_sum {
    uint64_t copies, bytes, ns;
};

/*
 * A line of Python whose copies waited. The sums of many short waits are estimated from a random
 * part of them; those of long waits are exact.
 */
struct gf_copy_wait_line {
    bool to_device;
    struct gf_python_line at;
    struct gf_copy_wait_sum sum;
};

struct gf_copy_waits {
    struct gf_copy_wait_sum to_device, from_device; /* all waits, also those without a line */
    unsigned lines;
    /* In the order in which they were first seen, so an index stays valid. */
    struct gf_copy_wait_line line[GF_COPY_WAIT_LINES];
};

/* Counts of log lines, of this process and of its children that share its slots. */
struct gf_journal_count {
    uint64_t lines; /* lines that were passed on for writing */
    /*
     * Lines that were not written: beyond the log's rate or size, too long, without a free slot, or
     * lost when a write failed or a thread ended. The file itself cannot report lines that are
     * dropped after its last line.
     */
    uint64_t dropped;
};

/* To whom a thread belongs. */
enum gf_thread_class {
    gf_thread_program, /* a thread of the program */
    /*
     * A thread of the program that set its own CPU affinity, or was created with one. The library
     * never binds such a thread.
     */
    gf_thread_self_set,
    gf_thread_driver, /* created by libcuda */
    gf_thread_ours,   /* created by gf_preload.start_thread, or by such a thread */
};

/*
 * Describes this process's Python interpreter to the engine, which reads Python frames of other
 * threads.
 */

struct gf_python {
    const char *version; /* the text that Py_GetVersion() returns */
    /* The address of _PyRuntime, the interpreter's global state; 0 if the symbol was not found. */
    uintptr_t runtime;
    size_t runtime_size;
};
