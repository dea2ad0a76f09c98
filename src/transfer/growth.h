/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is becoming a part of a ring: mapped by a copying call, touched by helpers on the
 * node while that call and others go on, registered by a later one. One at a time for a ring.
 */
#ifndef GF_TRANSFER_GROWTH_H
#define GF_TRANSFER_GROWTH_H

#include "transfer/context.h"
#include "transfer/tell.h"

struct gf_growth {
    unsigned state; /* atomic; growth.c's */
    char *at;
    size_t bytes;
    unsigned passed; /* copies that left it to a larger one */
    int error;       /* atomic: errno of a page that could not be touched */
    struct gf_job job;
};

/* One of these bytes is under way from now on, if none was yet; false: the system refused. */
bool gf_growth_start(struct gf_growth *growth, const struct gf_context *context, size_t bytes,
                     struct gf_fault *ret_fault);

/* Whether one is under way or ready. */
bool gf_growth_is_on(const struct gf_growth *growth);

enum gf_grown {
    gf_grown_not,    /* nothing is ready, or somebody else is at it */
    gf_grown_ready,  /* registered: *ret_at and *ret_bytes are the ring's now */
    gf_grown_failed, /* *ret_fault says why */
};

/* Registers what is ready. `most`: what the calling copy can carry, unless it has waited long. */
enum gf_grown gf_growth_finish(struct gf_growth *growth, const struct gf_context *context,
                               size_t most, char **ret_at, size_t *ret_bytes,
                               struct gf_fault *ret_fault);

/* Ends one that is under way, waiting for pieces that helpers have begun. */
void gf_growth_cancel(struct gf_growth *growth, const struct gf_context *context);

#endif
