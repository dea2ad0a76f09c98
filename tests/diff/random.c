/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers from a seed, patterns, and a hash that is fast enough to check every byte. */
#include "diff.h"

#include <string.h>

static uint64_t next(struct thread *t)
{
    uint64_t z = t->state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t any(struct thread *t, uint64_t below)
{
    return below ? next(t) % below : 0;
}

bool chance(struct thread *t, unsigned percent)
{
    return any(t, 100) < percent;
}

size_t any_size(struct thread *t, size_t most)
{
    /* Log-uniform, with a share of sizes close to the largest. */
    unsigned top = 63 - (unsigned)__builtin_clzll(most);
    unsigned cut = chance(t, 20) ? 0 : chance(t, 30) ? 3 : 6;
    unsigned bits = (unsigned)any(t, (top > cut ? top - cut : 1) + 1);
    size_t size = ((size_t)1 << bits) + (chance(t, 30) ? 0 : any(t, (size_t)1 << bits));
    if (chance(t, 10))
        size = (size + 4095) & ~(size_t)4095;
    return size > most ? most : size;
}

size_t any_room(struct thread *t, size_t most)
{
    size_t size = any_size(t, most);
    return chance(t, 15) || size > most / 8 ? size : size * (1 + any(t, most / size));
}

size_t any_offset(struct thread *t, size_t room)
{
    if (!room || chance(t, 30))
        return 0;
    if (chance(t, 15))
        return room;
    size_t at = any(t, room + 1);
    return chance(t, 30) ? at & ~(size_t)4095 : at;
}

void fill(struct thread *t, void *at, size_t size)
{
    uint64_t lane[4] = {next(t), next(t), next(t), next(t)};
    unsigned char *to = at;
    for (; size >= sizeof lane; to += sizeof lane, size -= sizeof lane) {
        for (int i = 0; i < 4; i++)
            lane[i] += 0x9e3779b97f4a7c15u + (lane[i] << 7);
        memcpy(to, lane, sizeof lane);
    }
    memcpy(to, lane, size);
}

uint64_t hash(const void *at, size_t size)
{
    uint64_t lane[4] = {size, 2, 3, 4}, word[4];
    const unsigned char *from = at;
    for (; size >= sizeof word; from += sizeof word, size -= sizeof word) {
        memcpy(word, from, sizeof word);
        for (int i = 0; i < 4; i++)
            lane[i] = (lane[i] ^ word[i]) * 0x9fb21c651e98df25u + (lane[i] >> 29);
    }
    memset(word, 0, sizeof word);
    memcpy(word, from, size);
    uint64_t all = 0;
    for (int i = 0; i < 4; i++)
        all = ((all ^ lane[i] ^ word[i]) * 0x9fb21c651e98df25u) ^ (all >> 31);
    return all ^ (all >> 32);
}
