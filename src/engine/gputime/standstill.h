/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds that a program which made steps stands still, and names where, while it lasts. It states
 * facts and does not judge. Used on the sampler's thread, except where noted.
 */
#pragma once

#include "abi/engine_api.h"
#include "engine/gputime/host_causes.h"
#include "engine/gputime/shares.h"

struct gf_standstill {
    uint64_t count;    /* how often the program stood still */
    bool ongoing;      /* it does so now */
    uint64_t since_ns; /* when the last step ended */
    uint64_t ns;       /* for how long the program has stood, or had stood at the end */
    uint64_t step;     /* the number of the step that does not end; 0: the program marks none */
    enum gf_host_cause cause;
    struct gf_python_line at; /* its `line` is 0 if unknown */
};

/*
 * A standstill: no step ended for the time of GPUFEED_STANDSTILL, and for 10 times the median step.
 * is_traced: whether a debugger traces the process. tell: called when a standstill begins and ends.
 */
void gf_standstill_open(const struct gf_preload *preload, bool (*is_traced)(void),
                        void (*tell)(const struct gf_standstill *standstill));

/*
 * Called at each sample. progress: work was submitted, a stream makes progress, or the process was
 * paused. at: the line of the cause; its `line` may be 0.
 */
void gf_standstill_see(uint64_t now, bool progress, enum gf_host_cause cause,
                       const struct gf_python_line *at);
/* Whether nothing has progressed for a second, so that the cause matters also on a busy GPU. */
bool gf_standstill_is_near(uint64_t now);

/* May be called on any thread. ret->count is 0 if the program never stood still. */
void gf_standstill_read(struct gf_standstill *ret);
