/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of pageable memory that waited for earlier work of their own stream. */
#ifndef GF_ABI_COPY_WAIT_API_H
#define GF_ABI_COPY_WAIT_API_H

#include "base/base.h"

#define GF_COPY_WAIT_LINES 16u

struct gf_copy_wait_sum {
    uint64_t copies, bytes, ns;
};

/*
 * A line of Python whose copies waited. The sums of many short waits are estimated from a random
 * part of them; those of long waits are exact.
 */
struct gf_copy_wait_line {
    bool to_device;
    int line;
    char file[128]; /* only the end of a path that is longer */
    char function[64];
    struct gf_copy_wait_sum sum;
};

struct gf_copy_waits {
    struct gf_copy_wait_sum to_device, from_device; /* all waits, also those without a line */
    unsigned lines;
    /* In the order in which they were first seen, so an index stays valid. */
    struct gf_copy_wait_line line[GF_COPY_WAIT_LINES];
};

#endif
