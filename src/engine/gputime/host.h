/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what the host did while a GPU was empty, in more detail than the state of the feeding
 * thread shows. It reads the line of Python that the thread executes, the holder of Python's lock,
 * and the state of the child processes whose data the thread waits for. Used on the sampler's
 * thread only.
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
    uint64_t read_ns; /* time of the last detailed reading */
    /* The reading replaced the cause `from` by the more exact cause `to`. */
    enum gf_host_cause from, to;
};

/*
 * Returns a more exact cause for `cause`. Makes a detailed reading at most 20 times per second
 * while the cause stays the same; between readings, returns the last result. python: the address of
 * the feeding thread's PyThreadState; 0: unknown.
 */
enum gf_host_cause gf_host_refine(struct gf_host *host, enum gf_host_cause cause, uintptr_t python,
                                  uint64_t now);

#endif
