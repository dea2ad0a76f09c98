/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to part with memory that is kept for later. Fed with readings, so tests feed it made-up
 * ones.
 */
#ifndef GF_PLACE_SQUEEZE_H
#define GF_PLACE_SQUEEZE_H

#include "host/headroom.h"
#include "host/pressure.h"

/* Keeping less than this is not worth anybody's while. */
#define GF_SQUEEZE_LITTLE (UINT64_C(32) << 20)

struct gf_squeeze_reading {
    uint64_t now_ns;
    uint64_t kept;  /* bytes, at most; what is lent counts too */
    uint64_t dirty; /* of these, at most so many are not lent: the kernel cannot take them */
    bool idle;      /* nothing was freed or lent since the reading before */
    struct gf_headroom room;
    struct gf_pressure pressure;
};

enum gf_squeeze_step { gf_squeeze_nothing, gf_squeeze_lend, gf_squeeze_give_back };

struct gf_squeeze {
    struct gf_squeeze_reading last;
    uint64_t idle_since_ns; /* 0: busy */
    uint64_t gave_back_ns;
};

enum gf_squeeze_step gf_squeeze_feed(struct gf_squeeze *squeeze,
                                     const struct gf_squeeze_reading *reading);

/* So little is kept that nothing was read. */
void gf_squeeze_rest(struct gf_squeeze *squeeze);

/* In how many ns the next reading should be taken; UINT64_MAX when there is nothing to lose. */
uint64_t gf_squeeze_wait(const struct gf_squeeze *squeeze);

#endif
