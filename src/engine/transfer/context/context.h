/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA contexts that copies and pinned buffers belong to. The driver reuses handles, so a
 * context is identified by cuCtxGetId. Rooms keep state for a context: its ring, its cached
 * mappings. No call enters a context while it may be ending. Once a context has ended, the last
 * call to leave it runs the functions of gf_context_on_end.
 */
#ifndef GF_ENGINE_TRANSFER_CONTEXT_CONTEXT_H
#define GF_ENGINE_TRANSFER_CONTEXT_CONTEXT_H

#include "abi/cuda.h"
#include "abi/transfer_api.h"
#include "base/atomic.h"
#include "engine/transfer/pool/pool.h"

#define GF_CONTEXTS 64 /* live contexts; copies in further contexts are left to the driver */

struct gf_ring;

struct gf_context {
    /* Set before the context can be entered. */
    CUcontext handle;
    CUdevice device;
    bool primary;
    bool shares_pages; /* the GPU accesses pageable memory directly: Grace, Tegra */
    int node;          /* the node nearest to the device; -1 if unknown */
    struct gf_cpus cpus;
    struct gf_pool *pool; /* the pool of that node; gf_pool_start starts its threads */

    /* The staging ring, owned by the room staging; NULL until the first copy. */
    struct gf_ring *_Atomic ring;

    /* Only context.c uses these members. */
    _Atomic(unsigned long long) id; /* 0: the entry is free */
    _Atomic unsigned state;
    _Atomic unsigned calls; /* number of calls that are inside */
};

/* Whether the driver has the functions that entering a context needs. */
bool gf_context_is_possible(const struct gf_cuda *cuda);

/*
 * Enters the calling thread's current context, whose state is kept until gf_context_leave. Returns
 * NULL if no context is current, if it is green or may be ending, if a query fails, or if
 * GF_CONTEXTS contexts are live. Makes CUDA calls. Any thread.
 */
struct gf_context *gf_context_enter(void);
void gf_context_leave(struct gf_context *context);

/* Whether contexts on devices of different nodes were entered in this process. */
bool gf_context_nodes_differ(void);

/* The id of an entered context. */
static inline unsigned long long gf_context_id(const struct gf_context *context)
{
    return gf_load_relaxed(&context->id);
}

/*
 * The number of calls that are inside a context now, including the caller's. Other threads change
 * it at any time.
 */
static inline unsigned gf_context_calls(const struct gf_context *context)
{
    return gf_load_relaxed(&context->calls);
}

/* Called before and after a call that may end contexts: see transfer_api.h. */
void gf_context_leaving(CUcontext handle, CUdevice device);
void gf_context_left(CUcontext handle, CUdevice device, CUresult result);

/*
 * Functions that release what rooms keep for a context. They run in this order once the context has
 * ended, on the thread that leaves it last, and make no CUDA call. The table ends with NULL. Called
 * once, before any context is entered.
 */
void gf_context_on_end(void (*const ends[])(struct gf_context *context));

/*
 * Calls `visit` for each live context. The state of that context does not change during `visit`.
 * Makes no CUDA call. Any thread.
 */
void gf_context_each(void (*visit)(void *closure, struct gf_context *context), void *closure);

#endif
