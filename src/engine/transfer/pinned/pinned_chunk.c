/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pinned/pinned_chunk.h"

#include "engine/transfer/pinned/zero.h"
#include "engine/transfer/mutation.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 256
#define UNIT GF_PINNED_CHUNK_UNIT
#define UNITS (GF_PINNED_CHUNK_SIZE / UNIT)

static struct gf_pinned_chunk *chunks[BUCKETS];

static struct gf_pinned_chunk **chunk_bucket(uintptr_t base)
{
    return &chunks[(base >> 21) * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}

struct gf_pinned_chunk *gf_pinned_chunk_find(uintptr_t base)
{
    struct gf_pinned_chunk *chunk = *chunk_bucket(base);
    while (chunk && chunk->base != base)
        chunk = chunk->next;
    return chunk;
}

struct gf_pinned_chunk *gf_pinned_chunk_add(uintptr_t base, uint64_t context, bool clean)
{
    struct gf_pinned_chunk *chunk = base ? gf_pinned_chunk_find(base) : NULL;
    if (base && !chunk && (chunk = calloc(1, sizeof(*chunk)))) {
        chunk->base = base;
        chunk->context = context;
        if (clean)
            memset(chunk->clean, 0xff, sizeof(chunk->clean));
        chunk->next = *chunk_bucket(base);
        *chunk_bucket(base) = chunk;
    }
    return chunk;
}

void gf_pinned_chunk_remove(struct gf_pinned_chunk *chunk)
{
    struct gf_pinned_chunk **at = chunk_bucket(chunk->base);
    while (*at != chunk)
        at = &(*at)->next;
    *at = chunk->next;
    free(chunk);
}

void gf_pinned_chunk_forget(uint64_t context)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct gf_pinned_chunk **at = &chunks[i], *c; (c = *at);) {
            if (c->context != context) {
                at = &c->next;
                continue;
            }
            *at = c->next;
            free(c);
        }
}

void gf_pinned_chunk_hand_out(struct gf_pinned_chunk *chunk, const void *p, size_t bytes,
                              unsigned flags, struct gf_pinned_span *ret)
{
    const size_t at = (uintptr_t)p - chunk->base;
    ret->first = (at + UNIT - 1) / UNIT;
    ret->end = gf_min((at + bytes) / UNIT, UNITS);
    if (chunk->live++ == 0)
        chunk->flags = flags;
    for (size_t i = ret->first; i < ret->end; i = (i / 64 + 1) * 64) {
        uint64_t mask = UINT64_MAX << i % 64;
        if (ret->end / 64 == i / 64)
            mask &= (UINT64_C(1) << ret->end % 64) - 1;
        ret->dirty[i / 64] = mask & ~chunk->clean[i / 64];
        chunk->clean[i / 64] |= mask;
    }
}

void gf_pinned_chunk_take_back(struct gf_pinned_chunk *chunk)
{
    if (--chunk->live == 0)
        memset(chunk->clean, 0, sizeof(chunk->clean));
}

/* Returns the first dirty unit at or after i, or the first clean unit if `dirty` is false. */
static size_t seek_unit(const struct gf_pinned_span *span, size_t i, bool dirty)
{
    while (i < span->end) {
        const uint64_t word = span->dirty[i / 64] ^ (dirty ? 0 : UINT64_MAX);
        const uint64_t rest = word >> i % 64;
        if (rest)
            return gf_min(i + (size_t)__builtin_ctzll(rest), span->end);
        i = (i / 64 + 1) * 64;
    }
    return span->end;
}

void gf_pinned_span_clean(const struct gf_pinned_span *span, uintptr_t base, char *p, size_t bytes)
{
    if (GF_MUTATED(leaves_old_bytes))
        return;
    char *const inner = (char *)base + span->first * UNIT;
    char *const outer = (char *)base + span->end * UNIT;
    if (span->first >= span->end) {
        memset(p, 0, bytes);
        return;
    }
    memset(p, 0, (size_t)(inner - p));
    memset(outer, 0, (size_t)(p + bytes - outer));
    for (size_t i = span->first, end; (i = seek_unit(span, i, true)) < span->end; i = end) {
        end = seek_unit(span, i, false);
        gf_zero((char *)base + i * UNIT, (end - i) * UNIT);
    }
}
