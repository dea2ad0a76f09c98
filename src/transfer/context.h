/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA contexts that copies and pinned buffers belong to. Handles are used again for new
 * contexts, so a context is known by cuCtxGetId. What is kept for a context (ring, kept buffers)
 * goes with it: nobody is let in while it may be ending, and when it has ended the last one out
 * drops what belonged to it.
 */
#ifndef GF_TRANSFER_CONTEXT_H
#define GF_TRANSFER_CONTEXT_H

#include "hook/cuda.h"
#include "hook/transfer_api.h"
#include "transfer/pool.h"

#define GF_CONTEXTS 64 /* alive at once; further ones are left to the driver */

struct gf_ring;

struct gf_context {
    /* Set once. */
    unsigned long long id;
    CUcontext handle;
    CUdevice device;
    bool primary;
    bool shares_pages; /* the GPU reads pageable memory itself: Grace, Tegra */
    int node;          /* nearest to the device; -1 unknown */
    struct gf_cpus cpus;
    struct gf_pool *pool; /* of that node; threads start with gf_pool_start */

    struct gf_ring *ring; /* its owner's, atomic; NULL until first needed */

    /* Atomic. */
    unsigned state;
    unsigned running; /* calls inside */
};

/*
 * The calling thread's current context, kept alive for us until gf_context_leave; NULL: there is
 * none, it is green or about to end, the driver does not tell, or there are too many. Makes CUDA
 * calls.
 */
struct gf_context *gf_context_enter(void);
void gf_context_leave(struct gf_context *context);

/* Around what may end contexts: see transfer_api.h. */
void gf_context_leaving(CUcontext handle, CUdevice device);
void gf_context_left(CUcontext handle, CUdevice device, CUresult result);

/* Live ones, for the report: calls see for each, kept alive meanwhile. Makes no CUDA call. */
void gf_context_each(void (*see)(void *closure, struct gf_context *context), void *closure);

#endif
