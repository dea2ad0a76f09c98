/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large pinned buffers that the program was given in the driver's stead: an extent of ours, in one
 * registration. The program sees what it would see of the driver's own; what would give it away is
 * answered here. Any thread; no lock is held over a CUDA call, a wait or a change of mappings.
 */
#ifndef GF_TRANSFER_LARGE_H
#define GF_TRANSFER_LARGE_H

#include "base/base.h"
#include "hook/cuda.h"
#include "transfer/tell.h"

struct gf_pool;

/* Where and for whom. */
struct gf_large_wish {
    const struct gf_cuda *cuda;
    struct gf_pool *pool; /* NULL: the caller alone touches */
    uint64_t context;     /* the id of the one that is current */
    int node;             /* -1 */
    unsigned flags;       /* that the program asked for, and will be told */
};

/*
 * flags are those to register with, PORTABLE and DEVICEMAP at most. True: *ret_result is what the
 * driver would have said, and *pp is set on success. False: nothing was done that can be seen.
 * ret_fault->call is NULL unless something failed as it should not: better not to try again.
 */
bool gf_large_alloc(const struct gf_large_wish *wish, void **pp, size_t bytes, unsigned flags,
                    CUresult *ret_result, struct gf_fault *ret_fault);

/*
 * Each is for the driver where it answers false: the pointer is not the start of one of ours.
 * What cannot be unregistered for no reason of the program's stays ours until its context ends;
 * ret_fault then says so, else its call is NULL.
 */
bool gf_large_free(const struct gf_cuda *cuda, void *p, CUresult *ret_result,
                   struct gf_fault *ret_fault);
bool gf_large_unregister(const struct gf_cuda *cuda, void *p, CUresult *ret_result);

/* The driver has said these flags of p: as the program asked. False: it is in none of ours. */
bool gf_large_flags(const void *p, unsigned *flags);

/* The same of the size of the mapping that p is in: the driver's own come in whole huge pages. */
bool gf_large_mapping(const void *p, size_t *bytes);

/* Whether one of ours lies in that range: registering it is an error of another kind then. */
bool gf_large_meets(const void *p, size_t bytes);

/* The context is gone, and its registrations with it. */
void gf_large_forget(uint64_t context);

/* For reports: bytes that the program holds now, by node; those of unknown node come last. */
#define GF_LARGE_NODES 64
void gf_large_held(uint64_t ret[GF_LARGE_NODES + 1]);

#endif
