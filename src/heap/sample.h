/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times a few calls of malloc now and then. The fast path asks who serves malloc anyway: while
 * calls are sampled the answer is "somebody else", which is this table, and it costs nothing
 * otherwise.
 */
#ifndef GF_HEAP_SAMPLE_H
#define GF_HEAP_SAMPLE_H

#include "heap/family.h"

/* The next so many calls of malloc, calloc, realloc and free, of all threads, are timed. */
void gf_sample_start(unsigned calls);

/* The table that serves meanwhile. */
const struct gf_family *gf_sample_family(void);

#endif
