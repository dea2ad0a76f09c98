/* SPDX-License-Identifier: Apache-2.0 */
#include "base/symbols.h"

#include <elf.h>
#include <link.h>

struct tables {
    uintptr_t base;
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *hash;
    const uint16_t *versions;
};

struct query {
    const char *name;
    const void *self; /* NULL once that object has been passed */
    bool within;      /* the object loaded here, which is 0 for a program at fixed addresses */
    uintptr_t base;
    bool found;
    struct gf_symbol *ret;
};

/* glibc relocates the pointers of a dynamic section in place; the vDSO's and musl's stay offsets. */
static const void *table(const struct tables *t, ElfW(Addr) value)
{
    return (const void *)(value < t->base ? value + t->base : value);
}

static bool read_tables(const struct dl_phdr_info *info, struct tables *ret)
{
    const ElfW(Dyn) *dynamic = NULL;

    *ret = (struct tables){0};
    ret->base = info->dlpi_addr;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        const void *at = table(ret, dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_SYMTAB)
            ret->symbols = at;
        else if (dynamic->d_tag == DT_STRTAB)
            ret->strings = at;
        else if (dynamic->d_tag == DT_GNU_HASH)
            ret->gnu_hash = at;
        else if (dynamic->d_tag == DT_HASH)
            ret->hash = at;
        else if (dynamic->d_tag == DT_VERSYM)
            ret->versions = at;
    }
    return ret->symbols && ret->strings;
}

/*
 * Not strcmp: a sanitizer linked into the program exports its own, which jumps to address 0 until
 * the sanitizer has looked up libc's, by the dlsym that is being resolved here.
 */
static bool same(const char *a, const char *b)
{
    for (; *a == *b; a++, b++)
        if (!*a)
            return true;
    return false;
}

/* An indirect function is no match: it cannot be called before its object has been relocated. */
static bool matches(const struct tables *t, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &t->symbols[index];
    const unsigned type = symbol->st_info & 0xf;
    const bool hidden = t->versions && (t->versions[index] & 0x8000);

    return symbol->st_shndx != SHN_UNDEF && symbol->st_value && !hidden &&
           (type == STT_FUNC || type == STT_NOTYPE) &&
           same(t->strings + symbol->st_name, name);
}

static uint32_t find_by_gnu_hash(const struct tables *t, const char *name)
{
    const uint32_t buckets = t->gnu_hash[0], first = t->gnu_hash[1], words = t->gnu_hash[2];
    const uint32_t *bucket = t->gnu_hash + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t hash = 5381;

    for (const char *p = name; *p; p++)
        hash = hash * 33 + (unsigned char)*p;
    uint32_t index = buckets ? bucket[hash % buckets] : 0;
    if (index < first)
        return 0;
    for (;; index++) {
        const uint32_t here = chain[index - first];
        if ((here | 1) == (hash | 1) && matches(t, index, name))
            return index;
        if (here & 1)
            return 0;
    }
}

static uint32_t find_by_hash(const struct tables *t, const char *name)
{
    const uint32_t symbols = t->hash[1];
    for (uint32_t index = 1; index < symbols; index++)
        if (matches(t, index, name))
            return index;
    return 0;
}

static bool holds(const struct dl_phdr_info *info, const void *address)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (uintptr_t)address - start < segment->p_memsz)
            return true;
    }
    return false;
}

static int look(struct dl_phdr_info *info, size_t size, void *closure)
{
    struct query *query = closure;
    struct tables t;

    (void)size;
    if (query->self) {
        if (holds(info, query->self))
            query->self = NULL;
        return 0;
    }
    if ((query->within && info->dlpi_addr != query->base) || !read_tables(info, &t))
        return 0;
    const uint32_t index = t.gnu_hash ? find_by_gnu_hash(&t, query->name)
                           : t.hash   ? find_by_hash(&t, query->name)
                                      : 0;
    if (!index)
        return 0;
    query->ret->address = (void *)(t.base + t.symbols[index].st_value);
    query->ret->object = info->dlpi_name;
    query->ret->base = t.base;
    query->ret->entry = &t.symbols[index];
    query->found = true;
    return 1;
}

bool gf_symbol_find(const char *name, const void *self, struct gf_symbol *ret)
{
    struct query query = {.name = name, .self = self, .ret = ret};
    dl_iterate_phdr(look, &query);
    return query.found;
}

bool gf_symbol_find_in(uintptr_t base, const char *name, struct gf_symbol *ret)
{
    struct query query = {.name = name, .within = true, .base = base, .ret = ret};
    dl_iterate_phdr(look, &query);
    return query.found;
}

static int look_for_holder(struct dl_phdr_info *info, size_t size, void *closure)
{
    struct gf_symbol *ret = closure;

    (void)size;
    if (!holds(info, ret->address))
        return 0;
    ret->object = info->dlpi_name;
    ret->base = info->dlpi_addr;
    ret->entry = NULL;
    return 1;
}

bool gf_symbol_holder(const void *address, struct gf_symbol *ret)
{
    ret->address = (void *)(uintptr_t)address;
    return dl_iterate_phdr(look_for_holder, ret) != 0;
}
