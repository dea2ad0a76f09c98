/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the program's memory grows with each step until the end, from readings that it adds. */
#pragma once

#include "abi/trace_api.h"

#define GF_GROWTH_POINTS 32

struct gf_growth_point {
    uint64_t at_ms, steps;
    /* Resident bytes, without what the heap keeps of freed memory. */
    uint64_t anonymous, shared;
    uint64_t heap;   /* bytes that the program has allocated; UINT64_MAX: unknown */
    uint64_t pinned; /* bytes of the library's pinned mappings, which are shared memory */
};

/* Points have about the same distance in time: if there are too many, every second one is dropped. */
struct gf_growth {
    struct gf_growth_point points[GF_GROWTH_POINTS];
    unsigned count;
    enum gf_step_source source; /* of the numbers of steps */
    uint64_t gap_ms, next_ms;   /* when the next point is due */
};

/* Points with less than four further steps are ignored. If the source of steps changes, earlier ones are dropped. */
void gf_growth_add(struct gf_growth *growth, enum gf_step_source source,
                   const struct gf_growth_point *point);

/*
 * Writes a sentence, or "" unless the memory has grown in all parts of the last three quarters of the
 * time. What grows less later, such as a cache or a warm-up, has no sentence.
 */
void gf_growth_say(const struct gf_growth *growth, char *buf, size_t size);
