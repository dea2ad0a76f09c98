/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/cuda.h"
#include "abi/transfer_api.h"
#include "base/base.h"

/*
 * Splits a batch of copies into members that are staged one by one, and a batch of the other
 * members. Calls only malloc and free.
 */

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

/* Detects two- and three-dimensional copies that are contiguous on both sides. Pure functions. */

/*
 * Both return true if the driver would certainly accept the block, and if one linear copy would
 * copy the same bytes. They then set way, dst, src and bytes of *ret; the caller sets async and
 * stream. In every case they set ret->bytes to the size of the block: 0 if block is NULL, SIZE_MAX
 * on overflow.
 */
bool gf_linear_copy_2d(const CUDA_MEMCPY2D *block, struct gf_copy_call *ret);
bool gf_linear_copy_3d(const CUDA_MEMCPY3D *block, struct gf_copy_call *ret);
