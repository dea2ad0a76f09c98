/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of CPUs and of NUMA nodes as plain bitmaps of fixed size. They need no allocation, can be
 * compared by memcmp, and have the layout that sched_setaffinity(2) and mbind(2) expect.
 */
#pragma once

#include "base/base.h"

#define GF_CPUS_MAX 4096  /* Linux's own limit is 8192; no GPU host has more than 4096 */
#define GF_NODES_MAX 1024 /* MAX_NUMNODES of distribution kernels */

struct gf_cpus {
    uint64_t word[GF_CPUS_MAX / 64];
};

struct gf_nodes {
    uint64_t word[GF_NODES_MAX / 64];
};

/* Operations on the words of a set of CPUs or of nodes. `n` is the number of words. */
bool gf_bits_test(const uint64_t *word, size_t n, unsigned bit);
void gf_bits_set(uint64_t *word, size_t n, unsigned bit);
unsigned gf_bits_count(const uint64_t *word, size_t n);
/* Returns the index of the first set bit at or after `from`; -1 if no such bit is set. */
int gf_bits_next(const uint64_t *word, size_t n, unsigned from);
bool gf_bits_within(const uint64_t *inner, const uint64_t *outer, size_t n);
bool gf_bits_meet(const uint64_t *a, const uint64_t *b, size_t n);
void gf_bits_and(uint64_t *ret, const uint64_t *a, const uint64_t *b, size_t n);
void gf_bits_or(uint64_t *ret, const uint64_t *a, const uint64_t *b, size_t n);

/*
 * Parses the kernel's list format, "0-3,8,10-11". Trailing white space is allowed; an empty text is
 * the empty set. Returns 0 on success, -ERANGE if a number is too large for the set, or -EINVAL if
 * the text is invalid otherwise. On failure *ret is unchanged.
 */
int gf_bits_parse(const char *text, uint64_t *ret, size_t n);

/*
 * Writes the set in the kernel's list format into buf. The text is always terminated. If buf is too
 * small, the text ends with ",...".
 */
char *gf_bits_format(const uint64_t *word, size_t n, char *buf, size_t size);

#define GF_WORDS(set) ((set)->word), GF_ARRAY_LEN((set)->word)

#define gf_set_test(set, bit) gf_bits_test(GF_WORDS(set), (bit))
#define gf_set_add(set, bit) gf_bits_set(GF_WORDS(set), (bit))
#define gf_set_count(set) gf_bits_count(GF_WORDS(set))
#define gf_set_empty(set) (gf_bits_next(GF_WORDS(set), 0) < 0)
#define gf_set_next(set, from) gf_bits_next(GF_WORDS(set), (from))
#define gf_set_equal(a, b) (memcmp((a)->word, (b)->word, sizeof((a)->word)) == 0)
#define gf_set_within(inner, outer)                                                                \
    gf_bits_within((inner)->word, (outer)->word, GF_ARRAY_LEN((inner)->word))
#define gf_set_meet(a, b) gf_bits_meet((a)->word, (b)->word, GF_ARRAY_LEN((a)->word))
#define gf_set_and(ret, a, b)                                                                      \
    gf_bits_and((ret)->word, (a)->word, (b)->word, GF_ARRAY_LEN((ret)->word))
#define gf_set_or(ret, a, b)                                                                       \
    gf_bits_or((ret)->word, (a)->word, (b)->word, GF_ARRAY_LEN((ret)->word))
#define gf_set_parse(text, ret) gf_bits_parse((text), GF_WORDS(ret))
#define gf_set_format(set, buf, size) gf_bits_format(GF_WORDS(set), (buf), (size))
