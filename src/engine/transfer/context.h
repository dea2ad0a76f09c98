/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA contexts to which copies and pinned buffers belong. The driver reuses handles, so a
 * context is identified by its number from cuCtxGetId. Other rooms keep state for a context, such
 * as its ring and its pinned buffers. A call enters a context before it uses this state. No call
 * enters a context while the context may be ending. Once a context has ended, the last call that
 * leaves it runs the functions of gf_context_on_end.
 */
#pragma once

#include "abi/cuda.h"
#include "abi/transfer_api.h"
#include "base/atomic.h"
#include "engine/transfer/pool.h"

/* the most live contexts; copies in further contexts are left to the driver */
#define GF_CONTEXTS 64

struct gf_ring;

struct gf_context {
    /* Set before the context can be entered. */
    CUcontext handle;
    CUdevice device;
    bool primary;
    bool shares_pages; /* the GPU accesses pageable memory directly: Grace, Tegra */
    bool faults_pages; /* kernels may write pageable memory: HMM, Grace */
    int node;          /* the node nearest to the device; -1 if unknown */
    struct gf_cpus cpus;
    struct gf_pool *pool; /* the pool of `node`; gf_pool_start starts the pool's threads */

    /* The staging ring, owned by the room staging; NULL until the first copy. */
    struct gf_ring *_Atomic ring;

    /* Only context.c uses these members. */
    _Atomic(unsigned long long) id; /* 0: the entry is free */
    _Atomic unsigned state;
    _Atomic unsigned calls; /* number of calls that are inside the context */
};

/* Whether the driver has the functions that entering a context needs. */
bool gf_context_is_possible(const struct gf_cuda *cuda);

/*
 * Enters the calling thread's current context. The state that rooms keep for it exists at least
 * until gf_context_leave. Returns NULL if no context is current, if the current context is green or
 * may be ending, if a query fails, or if GF_CONTEXTS contexts are live. Makes CUDA calls. May be
 * called on any thread.
 */
struct gf_context *gf_context_enter(void);
void gf_context_leave(struct gf_context *context);

/* Whether this process has entered contexts whose devices belong to different nodes. */
bool gf_context_nodes_differ(void);

/* The id of an entered context. */
static inline unsigned long long gf_context_id(const struct gf_context *context)
{
    return gf_load_relaxed(&context->id);
}

/*
 * The number of calls that are inside a context now, including the caller's. Other threads may
 * change it at any time.
 */
static inline unsigned gf_context_calls(const struct gf_context *context)
{
    return gf_load_relaxed(&context->calls);
}

/*
 * Called before and after a call of the program that may end contexts: see context_leaving in
 * transfer_api.h.
 */
void gf_context_leaving(CUcontext handle, CUdevice device);
void gf_context_left(CUcontext handle, CUdevice device, CUresult result);

/*
 * Sets the functions that release the state that rooms keep for a context. `ends` is a table that
 * ends with NULL. Once a context has ended, the thread that leaves it last calls the functions in
 * the table's order. They make no CUDA call. Called once, before any context is entered.
 */
void gf_context_on_end(void (*const ends[])(struct gf_context *context));

/*
 * Loops over all live contexts. gf_context_next leaves the context `before`, enters the next one and
 * returns it, or returns NULL after the last one. So a loop must not end early. The state that rooms
 * keep for a context exists until the loop goes on. Makes no CUDA call. May be called on any thread.
 */
#define GF_EACH_CONTEXT(name)                                                                      \
    for (struct gf_context *name = gf_context_next(NULL); name; name = gf_context_next(name))
struct gf_context *gf_context_next(struct gf_context *before);
