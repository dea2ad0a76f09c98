/* SPDX-License-Identifier: Apache-2.0 */
/* The steps that the program marks by gpufeed_step, and those that are detected without marks. */
#ifndef GF_ABI_STEP_API_H
#define GF_ABI_STEP_API_H

#include "abi/stall_api.h"
#include "base/base.h"

#define GF_STEPS_LONGEST 8u
#define GF_STEP_ENGINE_FACTS 24u
#define GF_STEP_FACTS (GF_CAUSE_COUNT + GF_STEP_ENGINE_FACTS)

struct gf_step_count {
    uint64_t ended; /* steps that a later mark ended */
    /* Microseconds from the program's first mark to its latest one; 0 before the second mark. */
    uint64_t us;
    uint64_t current; /* number of the current step; 0 if there is none */
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

#endif
