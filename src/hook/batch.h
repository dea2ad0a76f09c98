/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of copies, taken apart: members that are to be done one by one, and the rest as a batch
 * of its own. Memory comes from malloc; no other calls.
 */
#ifndef GF_HOOK_BATCH_H
#define GF_HOOK_BATCH_H

#include "base/base.h"
#include "hook/cuda.h"

/* The parameters of cuMemcpyBatchAsync, but for the stream and the place for the failing index. */
struct gf_batch {
    CUdeviceptr *dsts, *srcs;
    size_t *sizes;
    size_t count;
    CUmemcpyAttributes *attrs;
    size_t *attrs_idxs; /* the first member that each of attrs applies to */
    size_t attr_count;
};

/* Whether the driver would find all in order but, perhaps, addresses and sizes. */
bool gf_batch_is_sound(const struct gf_batch *batch);

/*
 * Calls see for each member of a sound batch, in order: plain, if it asks for nothing but that its
 * source may be read before this call returns, whatever is in the stream before it.
 */
void gf_batch_each(const struct gf_batch *batch,
                   void (*see)(void *closure, size_t member, bool plain), void *closure);

struct gf_split {
    struct gf_batch rest;
    size_t *rest_members; /* its members' places in the whole */
    bool *apart;          /* of each member of the whole; all false at first */
};

/* Room for any split of a batch; false: no memory. What was begun is ended. */
bool gf_split_begin(const struct gf_batch *batch, struct gf_split *ret);
/* Fills in the rest: all that is not set apart, with its attributes, in order. */
void gf_split_rest(const struct gf_batch *batch, struct gf_split *split);
void gf_split_end(struct gf_split *split);

/* One member as a batch; valid as long as *ret and the whole are. */
struct gf_single {
    struct gf_batch batch;
    size_t first;
};
void gf_batch_single(const struct gf_batch *batch, size_t member, struct gf_single *ret);

#endif
