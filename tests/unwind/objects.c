/* SPDX-License-Identifier: Apache-2.0 */
#include "objects.h"

#include <link.h>
#include <string.h>

#define ENTRIES 12 /* of a header whose two numbers take 4 bytes each */

static int32_t read_s32(const unsigned char *at)
{
    int32_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static bool is_usual(const unsigned char *header)
{
    static const unsigned char usual[] = {1, 0x1b, 0x03, 0x3b};
    return memcmp(header, usual, sizeof(usual)) == 0;
}

static int add(struct dl_phdr_info *info, size_t size, void *closure)
{
    struct objects *ret = closure;
    const char *slash = strrchr(info->dlpi_name, '/');
    struct object object = {.name = slash ? slash + 1 : info->dlpi_name, .start = UINTPTR_MAX};

    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_GNU_EH_FRAME)
            object.table.header = (const unsigned char *)start;
        if (segment->p_type != PT_LOAD)
            continue;
        object.start = gf_min(object.start, start);
        object.end = gf_max(object.end, start + segment->p_memsz);
    }
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD &&
            (uintptr_t)object.table.header - start < segment->p_filesz) {
            object.table.start = (const unsigned char *)start;
            object.table.end = object.table.start + segment->p_filesz;
        }
    }
    if (!object.table.start || !is_usual(object.table.header) || ret->count == OBJECTS_MOST)
        return 0;
    object.entries = (uint32_t)read_s32(object.table.header + 8);
    ret->at[ret->count++] = object;
    return 0;
}

void objects_list(struct objects *ret)
{
    ret->count = 0;
    dl_iterate_phdr(add, ret);
}

const struct object *objects_find(const struct objects *objects, uintptr_t address)
{
    for (size_t i = 0; i < objects->count; i++)
        if (address >= objects->at[i].start && address < objects->at[i].end)
            return &objects->at[i];
    return NULL;
}

const struct object *objects_named(const struct objects *objects, const char *prefix)
{
    for (size_t i = 0; i < objects->count; i++)
        if (strncmp(objects->at[i].name, prefix, strlen(prefix)) == 0)
            return &objects->at[i];
    return NULL;
}

uintptr_t object_function(const struct object *object, size_t i)
{
    const unsigned char *header = object->table.header;
    return (uintptr_t)header + (uintptr_t)(intptr_t)read_s32(header + ENTRIES + 8 * i);
}

const unsigned char *object_entry(const struct object *object, size_t i)
{
    const unsigned char *header = object->table.header;
    return header + read_s32(header + ENTRIES + 8 * i + 4);
}

struct word {
    uintptr_t value;
} __attribute__((packed, may_alias));

/* A sanitizer's padding between constants is read, too. */
__attribute__((no_sanitize("address"))) bool objects_read(const struct objects *objects,
                                                          uintptr_t address, uintptr_t *ret)
{
    const struct object *object = objects_find(objects, address);

    if (!object)
        return false;
    const struct gf_table *table = &object->table;
    if (address - (uintptr_t)table->start >= (size_t)(table->end - table->start) - sizeof(*ret))
        return false;
    *ret = ((const struct word *)address)->value;
    return true;
}
