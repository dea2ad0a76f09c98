/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits a batch of copies into members that are staged one by one, and a batch of the other
 * members. Calls only malloc and free.
 */
#ifndef GF_PRELOAD_HOOK_CUDA_BATCH_H
#define GF_PRELOAD_HOOK_CUDA_BATCH_H

#include "base/base.h"
#include "abi/cuda.h"

/* The parameters of cuMemcpyBatchAsync, without stream and failIdx. */
struct gf_batch {
    CUdeviceptr *dsts, *srcs;
    size_t *sizes;
    size_t count;
    CUmemcpyAttributes *attrs;
    size_t *attrs_idxs; /* for each element of attrs, the first member that has these attributes */
    size_t attr_count;
};

/* Whether the driver would accept the batch. Addresses and sizes are not checked. */
bool gf_batch_is_sound(const struct gf_batch *batch);

/*
 * Calls `see` for each member of a sound batch, in order. plain: the source may be read during the
 * call, without waiting for earlier work of the stream, and the member has no other attribute.
 */
void gf_batch_each(const struct gf_batch *batch,
                   void (*see)(void *closure, size_t member, bool plain), void *closure);

struct gf_split {
    struct gf_batch rest;
    size_t *rest_members; /* for each member of `rest`, its index in the whole batch */
    /* For each member of the whole batch, whether it is staged; initially false. */
    bool *staged;
};

/*
 * Allocates enough memory for any split of the batch. Returns false if out of memory. After it has
 * returned true, gf_split_end must be called.
 */
bool gf_split_begin(const struct gf_batch *batch, struct gf_split *ret);
/* Fills in split->rest: all members that are not staged, with their attributes, in order. */
void gf_split_rest(const struct gf_batch *batch, struct gf_split *split);
void gf_split_end(struct gf_split *split);

/*
 * A batch that consists of one member of another batch. gf_batch_single fills it in. The new batch
 * is valid while *ret and the other batch are valid.
 */
struct gf_single {
    struct gf_batch batch;
    size_t first;
};
void gf_batch_single(const struct gf_batch *batch, size_t member, struct gf_single *ret);

#endif
