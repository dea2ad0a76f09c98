/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for byte strings: equal strings have the same number. A job has a million stalls and a
 * few hundred different names, causes and stacks. One thread uses a pool at a time.
 */
#ifndef GF_CLI_REPORT_INPUT_TEXT_POOL_H
#define GF_CLI_REPORT_INPUT_TEXT_POOL_H

#include "base/base.h"

struct gf_text_pool {
    char **texts; /* each with a final zero byte */
    size_t *sizes;
    uint32_t *slots; /* numbers + 1, by hash; 0 is free */
    uint64_t *hashes;
    uint32_t count, room, slot_count;
    size_t bytes, limit; /* of all strings; beyond the limit all new strings are "..." */
};

/*
 * The number of a string. Number 0 is always "". If memory is short or the pool is full, the
 * number of "..." is returned, or 0 if not even that fits. *ret_new: the string was not there yet.
 */
uint32_t gf_text_pool_add(struct gf_text_pool *pool, const char *text, size_t size, bool *ret_new);
/* The number of a string, or 0 if it is not in the pool. */
uint32_t gf_text_pool_find(const struct gf_text_pool *pool, const char *text, size_t size);
uint32_t gf_text_pool_put(struct gf_text_pool *pool, const char *text);

/* The string of a number; valid until the pool is freed. "" for a number that is not in it. */
const char *gf_text_pool_get(const struct gf_text_pool *pool, uint32_t number);

void gf_text_pool_free(struct gf_text_pool *pool);

#endif
