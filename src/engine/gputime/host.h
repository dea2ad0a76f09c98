/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host did while a GPU was empty, in more detail than the feeding thread's state. The
 * details are the line of Python, the holder of Python's lock, and the processes whose data the
 * thread waits for. Used on the sampler's thread only.
 */
#ifndef GF_ENGINE_GPUTIME_HOST_H
#define GF_ENGINE_GPUTIME_HOST_H

#include "engine/gputime/feeder.h"
#include "engine/gputime/cause_lines.h"
#include "engine/gputime/workers.h"

struct gf_host {
    struct gf_feeder feeder;
    struct gf_workers workers;
    struct gf_cause_lines lines;
    uint64_t read_ns;            /* time of the last detailed reading */
    enum gf_host_cause from, to; /* the cause `from` that the reading refined to `to` */
};

/*
 * Returns the cause in more detail. Reads at most 20 times per second; between readings, returns
 * the last answer. python: the thread state of the feeding thread; 0: unknown.
 */
enum gf_host_cause gf_host_refine(struct gf_host *host, enum gf_host_cause cause, uintptr_t python,
                                  uint64_t now);

#endif
