/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_GPUTIME_GRAPH_STEPS_H
#define GF_ENGINE_GPUTIME_GRAPH_STEPS_H

#include "abi/gputime_api.h"

/* Takes the approximate time of a launch of a graph. */
typedef void gf_graph_steps_fn(uint64_t ns, uint64_t graph);

/*
 * Finds the graphs that were launched since the last sample, from the counts of the hooks, which
 * read no clock. A launch is known as of half an interval between samples. Used on the sampler's
 * thread only. before_ns, now: the times of the last sample and of this one.
 */
void gf_graph_steps_see(struct gf_submit_table *table, uint64_t before_ns, uint64_t now,
                        gf_graph_steps_fn *launched);

#endif
