/* SPDX-License-Identifier: Apache-2.0 */
#include "damage.h"

#include "invented.h"

#include <stdlib.h>
#include <sys/mman.h>

#define GUARD ((size_t)2 << 30) /* offsets in rows have 32 bits */
/* Offset of the program in a description without augmentation data. */
#define PROGRAM 17

size_t damage_rounds(size_t before_release, size_t suite)
{
    return getenv("GF_LONG") ? before_release : suite;
}

uint64_t series_next(struct series *series)
{
    series->state += UINT64_C(0x9e3779b97f4a7c15);
    return invented_number(series->state);
}

size_t series_below(struct series *series, size_t limit)
{
    return series_next(series) % limit;
}

struct object damage_copy(const struct object *object, bool ends_at_page)
{
    const size_t size = (size_t)(object->table.end - object->table.start);
    const size_t whole = (size + 4095) & ~(size_t)4095;
    unsigned char *reserved = mmap(NULL, 2 * GUARD + whole, PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct object copy = *object;

    if (reserved == MAP_FAILED || mprotect(reserved + GUARD, whole, PROT_READ | PROT_WRITE) != 0)
        abort();
    unsigned char *start = reserved + GUARD + (ends_at_page ? whole - size : 0);
    memcpy(start, object->table.start, size);
    const uintptr_t shift = (uintptr_t)start - (uintptr_t)object->table.start;
    copy.table = (struct gf_table){start + (object->table.header - object->table.start), start,
                                   start + size};
    copy.start += shift;
    copy.end += shift;
    return copy;
}

static uint32_t read_u32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static unsigned char change(struct series *series, unsigned char before)
{
    /* Each DW_CFA_* that x86_64 uses, and extreme values of numbers. */
    static const unsigned char telling[] = {
        0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e,
        0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x16, 0x2e, 0x40, 0x7f, 0x80, 0x90, 0xc0, 0xc7, 0xff};
    switch (series_below(series, 3)) {
    case 0:
        return before ^ (unsigned char)(1U << series_below(series, 8));
    case 1:
        return telling[series_below(series, sizeof(telling))];
    default:
        return (unsigned char)series_next(series);
    }
}

/*
 * Chooses the bytes that change. Most are in a function's program. Others are in the function's
 * description, in its common entry, or in the sorted table up to the function.
 */
static const unsigned char *choose_part(struct series *series, const struct object *object,
                                        size_t i, size_t *size)
{
    const unsigned char *entry = object_entry(object, i);
    const size_t dice = series_below(series, 32);

    *size = 12 + 8 * i + 8;
    if (dice == 0)
        return object->table.header;
    if (dice < 5)
        entry = entry + 4 - read_u32(entry + 4);
    *size = 4 + read_u32(entry);
    if (dice < 10 || *size <= PROGRAM)
        return entry;
    *size -= PROGRAM;
    return entry + PROGRAM;
}

void mutation_choose(const struct object *object, size_t i, struct mutation *ret)
{
    struct series series = {i};
    const size_t chosen = series_below(&series, object->entries);
    const unsigned char *entry = object_entry(object, chosen), *start = object->table.start;
    const uint32_t size = read_u32(entry + 12); /* size of the function */

    ret->entry = (size_t)(entry - start);
    ret->size = 4 + read_u32(entry);
    ret->pc = object_function(object, chosen) - (uintptr_t)start +
              (size ? series_below(&series, size) : 0);
    ret->count = 1 + series_below(&series, CHANGES_MOST);
    for (size_t k = 0; k < ret->count; k++) {
        size_t part_size;
        const unsigned char *part = choose_part(&series, object, chosen, &part_size);
        const unsigned char *at = part + series_below(&series, part_size);
        ret->change[k].offset = (size_t)(at - start);
        ret->change[k].before = *at;
        ret->change[k].after = change(&series, *at);
    }
}

static unsigned char *writable(const struct object *copy, size_t offset)
{
    return (unsigned char *)(uintptr_t)copy->table.start + offset;
}

void mutation_apply(const struct object *copy, const struct mutation *mutation)
{
    for (size_t k = 0; k < mutation->count; k++)
        *writable(copy, mutation->change[k].offset) = mutation->change[k].after;
}

void mutation_revert(const struct object *copy, const struct mutation *mutation)
{
    for (size_t k = 0; k < mutation->count; k++)
        *writable(copy, mutation->change[k].offset) = mutation->change[k].before;
}
