/* SPDX-License-Identifier: Apache-2.0 */
/* Captures in progress, and the graphs that they produce. */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "sim.h"

struct sim_node {
    CUgraphNodeType type;
    struct sim_op *op; /* runs again at each launch; NULL does nothing */
};

struct sim_graph {
    struct sim_node **nodes;
    size_t count;
    bool exec; /* an instantiated copy */
    int refs;
    uint64_t id;
};

struct sim_capture {
    struct sim_capture *next;
    uint64_t id;
    CUstreamCaptureMode mode;
    pthread_t owner;
    struct sim_stream *origin;
    struct sim_context *context;
    struct sim_graph *graph;
    bool invalid;
};

struct sim_graph *sim_graph_new(void);
struct sim_node *sim_graph_add(struct sim_graph *graph, CUgraphNodeType type, struct sim_op *op);
void sim_graph_release(struct sim_graph *graph);

#endif
