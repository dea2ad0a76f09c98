/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores each distinct byte string once, under a number. A job may have a million stalls, but only a
 * few hundred different names, causes and stacks. Only one thread at a time may use a pool.
 */
#pragma once

#include "base/base.h"

struct gf_text_pool {
    struct gf_pool_text {
        char *text; /* with a final zero byte */
        size_t size;
        uint64_t hash;
    } * list;
    uint32_t *slots; /* hash table of numbers + 1; 0 is free */
    uint32_t count, room, slot_count;
    size_t bytes, limit; /* bytes of all strings; beyond the limit a new string becomes "..." */
};

/*
 * Returns the number of a string. If the string is new, adds it, and sets *ret_new to true. Number
 * 0 is "". If the pool is full, returns the number of "...".
 */
uint32_t gf_text_pool_add(struct gf_text_pool *pool, const char *text, size_t size, bool *ret_new);
/* Returns the number of a string, or 0 if the string is not in the pool. */
uint32_t gf_text_pool_find(const struct gf_text_pool *pool, const char *text, size_t size);
uint32_t gf_text_pool_put(struct gf_text_pool *pool, const char *text);

/*
 * Returns the string of a number, or "" if the number is unknown. The string is valid until the
 * pool is freed.
 */
const char *gf_text_pool_get(const struct gf_text_pool *pool, uint32_t number);

/* Returns the element of a list whose index is the number of a string. The list grows by zeros. */
#define GF_POOL_SLOT(list, number, room)                                                           \
    ({                                                                                             \
        (list) = gf_text_pool_grown(list, sizeof(__typeof__(*(list))), number, &(room));           \
        &(list)[number];                                                                           \
    })
void *gf_text_pool_grown(void *list, size_t element, uint32_t number, size_t *room);

void gf_text_pool_free(struct gf_text_pool *pool);
