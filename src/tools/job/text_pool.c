/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/job/text_pool.h"

#include "tools/common/cli.h"

#include <stdlib.h>
#include <sys/auxv.h>

#define LIMIT ((size_t)256 << 20)

static uint64_t fold(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The writer of a log does not know the secret, so he cannot choose texts with equal hashes. */
static uint64_t hash_of(const char *text, size_t size)
{
    uint64_t key[] = {0x9e3779b97f4a7c15ULL, 0xff51afd7ed558ccdULL}, word;
    /* The kernel chose these 16 bytes for this process. If they are missing, the hash still spreads. */
    const void *random = (const void *)getauxval(AT_RANDOM);

    if (random)
        memcpy(key, random, sizeof(key));
    uint64_t hash = key[0] ^ size;
    for (; size >= sizeof(word); text += sizeof(word), size -= sizeof(word)) {
        memcpy(&word, text, sizeof(word));
        hash = fold(hash ^ word, key[1] | 1);
    }
    word = 0;
    memcpy(&word, text, size);
    return fold(fold(hash ^ word, key[1] | 1), key[0] | 1);
}

static void place(struct gf_text_pool *pool, uint32_t number)
{
    uint32_t at = (uint32_t)pool->list[number].hash & (pool->slot_count - 1);

    while (pool->slots[at])
        at = (at + 1) & (pool->slot_count - 1);
    pool->slots[at] = number + 1;
}

/* Doubles the space. Keeps twice as many slots as strings fit. */
static void grow(struct gf_text_pool *pool)
{
    pool->room = pool->room ? pool->room * 2 : 256;
    pool->list = gf_cli_memory(reallocarray(pool->list, pool->room, sizeof(*pool->list)));
    free(pool->slots);
    pool->slot_count = 2 * pool->room;
    pool->slots = gf_cli_alloc(pool->slot_count, sizeof(*pool->slots));
    for (uint32_t i = 0; i < pool->count; i++)
        place(pool, i);
}

/* Returns the number of a string; UINT32_MAX if it is not in the pool. */
static uint32_t find(const struct gf_text_pool *pool, const char *text, size_t size, uint64_t hash)
{
    if (!pool->slot_count)
        return UINT32_MAX;
    for (uint32_t at = (uint32_t)hash & (pool->slot_count - 1); pool->slots[at];
         at = (at + 1) & (pool->slot_count - 1)) {
        const struct gf_pool_text *known = &pool->list[pool->slots[at] - 1];
        if (known->hash == hash && known->size == size && memcmp(known->text, text, size) == 0)
            return pool->slots[at] - 1;
    }
    return UINT32_MAX;
}

static uint32_t append(struct gf_text_pool *pool, const char *text, size_t size)
{
    const uint32_t number = pool->count;
    char *copy = gf_cli_memory(malloc(size + 1));

    if (number == pool->room)
        grow(pool);
    memcpy(copy, text, size);
    copy[size] = '\0';
    pool->list[number] = (struct gf_pool_text){copy, size, hash_of(text, size)};
    pool->count++;
    pool->bytes += size + 1;
    place(pool, number);
    return number;
}

uint32_t gf_text_pool_add(struct gf_text_pool *pool, const char *text, size_t size, bool *ret_new)
{
    if (!pool->count)
        append(pool, "", 0);
    uint32_t number = find(pool, text, size, hash_of(text, size));
    if (number == UINT32_MAX && pool->bytes + size > (pool->limit ? pool->limit : LIMIT)) {
        text = "...";
        size = 3;
        number = find(pool, text, size, hash_of(text, size));
    }
    *ret_new = number == UINT32_MAX;
    return *ret_new ? append(pool, text, size) : number;
}

uint32_t gf_text_pool_find(const struct gf_text_pool *pool, const char *text, size_t size)
{
    const uint32_t number = find(pool, text, size, hash_of(text, size));
    return number == UINT32_MAX ? 0 : number;
}

uint32_t gf_text_pool_put(struct gf_text_pool *pool, const char *text)
{
    bool is_new;
    return gf_text_pool_add(pool, text, strlen(text), &is_new);
}

const char *gf_text_pool_get(const struct gf_text_pool *pool, uint32_t number)
{
    return number < pool->count ? pool->list[number].text : "";
}

void *gf_text_pool_grown(void *list, size_t element, uint32_t number, size_t *room)
{
    const size_t wanted = 2 * (size_t)number + 64;

    if (number < *room)
        return list;
    char *grown = gf_cli_memory(reallocarray(list, wanted, element));
    memset(grown + *room * element, 0, (wanted - *room) * element);
    *room = wanted;
    return grown;
}

void gf_text_pool_free(struct gf_text_pool *pool)
{
    for (uint32_t i = 0; i < pool->count; i++)
        free(pool->list[i].text);
    free(pool->list);
    free(pool->slots);
    *pool = (struct gf_text_pool){0};
}
