/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is becoming a part of a ring: mapped by a copying call, touched by helpers on the
 * node while that call and others go on, registered by a later one. One at a time for a ring.
 */
#ifndef GF_TRANSFER_SEGMENT_H
#define GF_TRANSFER_SEGMENT_H

#include "transfer/context.h"

struct gf_growth {
    unsigned state; /* atomic; segment.c's */
    char *at;
    size_t bytes;
    unsigned passed; /* atomic: copies that left it to a larger one */
    struct gf_job job;
};

/* Starts one of these bytes; false: there is one already, or no memory. */
bool gf_growth_start(struct gf_growth *growth, const struct gf_context *context, size_t bytes);

/* Whether one is under way or ready; and its size. */
bool gf_growth_is_on(const struct gf_growth *growth);

enum gf_grown {
    gf_grown_not,    /* nothing is ready, or somebody else is at it */
    gf_grown_ready,  /* registered: *ret_at and *ret_bytes are the ring's now */
    gf_grown_failed, /* *ret_call and *ret_error say why */
};

/* Registers what is ready. `most`: what the calling copy can carry, unless it has waited long. */
enum gf_grown gf_growth_finish(struct gf_growth *growth, const struct gf_context *context,
                               size_t most, char **ret_at, size_t *ret_bytes,
                               const char **ret_call, CUresult *ret_error);

/* Ends one that is under way, waiting for pieces that helpers have begun. */
void gf_growth_cancel(struct gf_growth *growth, const struct gf_context *context);

#endif
