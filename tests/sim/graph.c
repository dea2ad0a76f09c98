/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs. Their nodes are in an order that respects every dependency. A launch runs them one after
 * the other, which CUDA permits.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

struct sim_graph *sim_graph_new(void)
{
    struct sim_graph *graph = calloc(1, sizeof *graph);
    if (graph) {
        graph->refs = 1;
        graph->id = sim_next_id();
    }
    return graph;
}

struct sim_node *sim_graph_add(struct sim_graph *graph, CUgraphNodeType type, struct sim_op *op)
{
    struct sim_node *node = calloc(1, sizeof *node);
    struct sim_node **nodes = realloc(graph->nodes, (graph->count + 1) * sizeof *nodes);
    if (nodes)
        graph->nodes = nodes;
    if (!node || !nodes) {
        free(node);
        return NULL;
    }
    node->type = type;
    node->op = op;
    return graph->nodes[graph->count++] = node;
}

CUresult sim_graph_add_op(CUgraphNode *ret, CUgraph graph, CUgraphNodeType type, struct sim_op *op)
{
    if (!op)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = (CUgraphNode)sim_graph_add((struct sim_graph *)graph, type, op);
    return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Nodes are never freed, because an instantiated copy shares their operations. */
void sim_graph_release(struct sim_graph *graph)
{
    if (--graph->refs > 0)
        return;
    free(graph->nodes);
    free(graph);
}

CUresult cuGraphCreate(CUgraph *ret, unsigned flags)
{
    SIM_ENTER("cuGraphCreate");
    if (!ret || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = (CUgraph)sim_graph_new();
    return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult release(void *handle)
{
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    sim_graph_release(handle);
    pthread_mutex_unlock(&sim_lock);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    SIM_ENTER("cuGraphDestroy");
    return release(graph);
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    SIM_ENTER("cuGraphExecDestroy");
    return release(exec);
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
    SIM_ENTER("cuGraphGetNodes");
    struct sim_graph *graph = (struct sim_graph *)handle;
    if (!graph || !count)
        return CUDA_ERROR_INVALID_VALUE;
    if (nodes)
        memcpy(nodes, graph->nodes,
               (*count < graph->count ? *count : graph->count) * sizeof *nodes);
    *count = graph->count;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type)
{
    SIM_ENTER("cuGraphNodeGetType");
    if (!handle || !type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = ((struct sim_node *)handle)->type;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t count)
{
    SIM_ENTER("cuGraphAddEmptyNode");
    if (!ret || !graph || (count && !deps))
        return CUDA_ERROR_INVALID_VALUE;
    *ret = (CUgraphNode)sim_graph_add((struct sim_graph *)graph, CU_GRAPH_NODE_TYPE_EMPTY, NULL);
    return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphAddHostNode(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t count,
                            const CUDA_HOST_NODE_PARAMS *params)
{
    SIM_ENTER("cuGraphAddHostNode");
    if (!ret || !graph || !params || !params->fn || (count && !deps))
        return CUDA_ERROR_INVALID_VALUE;
    *ret = (CUgraphNode)sim_graph_add((struct sim_graph *)graph, CU_GRAPH_NODE_TYPE_HOST,
                                      sim_host_op(params->fn, params->userData));
    return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult instantiate(CUgraphExec *ret, CUgraph handle)
{
    struct sim_graph *graph = (struct sim_graph *)handle;
    if (!ret || !graph || graph->exec)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    CUresult result = sim_unsafe();
    struct sim_graph *exec = result ? NULL : sim_graph_new();
    for (size_t i = 0; exec && i < graph->count; i++)
        sim_graph_add(exec, graph->nodes[i]->type, graph->nodes[i]->op);
    pthread_mutex_unlock(&sim_lock);
    if (exec) {
        exec->exec = true;
        *ret = (CUgraphExec)exec;
    }
    return result;
}

CUresult cuGraphInstantiate(CUgraphExec *ret, CUgraph graph, CUgraphNode *node, char *log,
                            size_t size)
{
    SIM_ENTER("cuGraphInstantiate");
    (void)node, (void)log, (void)size;
    return instantiate(ret, graph);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *ret, CUgraph graph, CUgraphNode *node, char *log,
                               size_t size)
{
    SIM_ENTER("cuGraphInstantiate_v2");
    (void)node, (void)log, (void)size;
    return instantiate(ret, graph);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *ret, CUgraph graph, unsigned long long flags)
{
    SIM_ENTER("cuGraphInstantiateWithFlags");
    (void)flags;
    return instantiate(ret, graph);
}

static CUresult with_params(bool per_thread, CUgraphExec *ret, CUgraph graph,
                            CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    (void)per_thread;
    CUresult result = params ? instantiate(ret, graph) : CUDA_ERROR_INVALID_VALUE;
    if (params)
        params->result_out = result ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return result;
}

SIM_TWINS(cuGraphInstantiateWithParams, _ptsz, with_params,
          (CUgraphExec * ret, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
          (ret, graph, params))

static void run_node(struct sim_context *context, struct sim_op *op)
{
    op->context = context;
    if (op->host) {
        pthread_mutex_lock(&sim_lock);
        sim_take_turn(context, ++context->host_tickets);
        pthread_mutex_unlock(&sim_lock);
    }
    op->run(op);
    if (op->host) {
        pthread_mutex_lock(&sim_lock);
        sim_end_turn(context);
        pthread_mutex_unlock(&sim_lock);
    }
}

static void run(struct sim_op *op)
{
    struct sim_graph *exec = (struct sim_graph *)(uintptr_t)op->payload[0];
    for (size_t i = 0; i < exec->count && !op->context->sticky; i++)
        if (exec->nodes[i]->op)
            run_node(op->context, exec->nodes[i]->op);
    pthread_mutex_lock(&sim_lock);
    sim_graph_release(exec);
    pthread_mutex_unlock(&sim_lock);
}

static CUresult launch(bool per_thread, CUgraphExec handle, CUstream s)
{
    struct sim_stream *stream;
    struct sim_graph *exec = (struct sim_graph *)handle;
    if (!exec || !exec->exec)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_stream_enter(s, per_thread, &stream);
    if (result)
        return result;
    struct sim_op *op = sim_op_new(run, sizeof op->payload[0]);
    op->payload[0] = (uintptr_t)exec;
    op->always = true;
    exec->refs++;
    result = sim_issue(stream, CU_GRAPH_NODE_TYPE_GRAPH, op, NULL);
    if (result)
        exec->refs--;
    pthread_mutex_unlock(&sim_lock);
    return result;
}

SIM_TWINS(cuGraphLaunch, _ptsz, launch, (CUgraphExec exec, CUstream s), (exec, s))

static CUresult upload(bool per_thread, CUgraphExec exec, CUstream s)
{
    (void)per_thread, (void)s;
    return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_TWINS(cuGraphUpload, _ptsz, upload, (CUgraphExec exec, CUstream s), (exec, s))
