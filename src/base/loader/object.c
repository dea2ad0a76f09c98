/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loader/object.h"

#define VERSION_MASK 0x7fff
#define VERSION_HIDDEN 0x8000 /* not the default version */
/* Version 0 marks local symbols; version 1 is the name of the object itself. */
#define FIRST_VERSION 2

/*
 * Returns the address that an entry of the dynamic section refers to. glibc replaces the offsets in
 * a dynamic section by addresses. In the vDSO, and with musl, the entries remain offsets.
 */
static const void *table(const struct gf_object *object, ElfW(Addr) value)
{
    return (const void *)(value < object->base ? value + object->base : value);
}

bool gf_object_read(uintptr_t base, const ElfW(Dyn) * dynamic, struct gf_object *ret)
{
    const ElfW(Dyn) *soname = NULL;

    *ret = (struct gf_object){.base = base, .soname = ""};
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
        else if (dynamic->d_tag == DT_VERDEF)
            ret->defined = at;
        else if (dynamic->d_tag == DT_VERNEED)
            ret->needed = at;
        else if (dynamic->d_tag == DT_JMPREL)
            ret->calls = at;
        else if (dynamic->d_tag == DT_PLTRELSZ)
            ret->calls_size = dynamic->d_un.d_val;
        else if (dynamic->d_tag == DT_BIND_NOW ||
                 (dynamic->d_tag == DT_FLAGS && dynamic->d_un.d_val & DF_BIND_NOW) ||
                 (dynamic->d_tag == DT_FLAGS_1 && dynamic->d_un.d_val & DF_1_NOW))
            ret->now = true;
        else if (dynamic->d_tag == DT_SONAME)
            soname = dynamic;
    }
    if (soname && ret->strings)
        ret->soname = ret->strings + soname->d_un.d_val;
    return ret->symbols && ret->strings;
}

/*
 * Used instead of strcmp. A sanitizer that is linked into the program exports its own strcmp. This
 * strcmp jumps to address 0 until the sanitizer has found libc's strcmp by dlsym. But the hook of
 * dlsym runs this code.
 */
bool gf_object_names_equal(const char *a, const char *b)
{
    for (; *a == *b; a++, b++)
        if (!*a)
            return true;
    return false;
}

static bool matches(const struct gf_object *object, uint32_t index, const char *name,
                    unsigned version)
{
    const ElfW(Sym) *symbol = &object->symbols[index];
    const unsigned here = object->versions ? object->versions[index] : 0;

    return symbol->st_shndx != SHN_UNDEF && symbol->st_value &&
           (version ? (here & VERSION_MASK) == version : !(here & VERSION_HIDDEN)) &&
           gf_object_names_equal(object->strings + symbol->st_name, name);
}

static const ElfW(Sym) *
    find_by_gnu_hash(const struct gf_object *object, const char *name, unsigned version)
{
    const uint32_t *table = object->gnu_hash;
    const uint32_t buckets = table[0], first = table[1], words = table[2];
    const uint32_t *bucket = table + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t hash = 5381;

    for (const char *p = name; *p; p++)
        hash = hash * 33 + (unsigned char)*p;
    uint32_t index = buckets ? bucket[hash % buckets] : 0;
    if (index < first)
        return NULL;
    for (;; index++) {
        const uint32_t here = chain[index - first];
        if ((here | 1) == (hash | 1) && matches(object, index, name, version))
            return &object->symbols[index];
        if (here & 1)
            return NULL;
    }
}

static const ElfW(Sym) *
    find_by_hash(const struct gf_object *object, const char *name, unsigned version)
{
    const uint32_t symbols = object->hash[1];

    for (uint32_t index = 1; index < symbols; index++)
        if (matches(object, index, name, version))
            return &object->symbols[index];
    return NULL;
}

const ElfW(Sym) * gf_object_find(const struct gf_object *object, const char *name, unsigned version)
{
    return object->gnu_hash ? find_by_gnu_hash(object, name, version)
           : object->hash   ? find_by_hash(object, name, version)
                            : NULL;
}

/*
 * Returns NULL for an indirect function (IFUNC), because its resolver must not run before its
 * object is relocated.
 */
const ElfW(Sym) * gf_object_function(const struct gf_object *object, const char *name)
{
    const ElfW(Sym) *symbol = gf_object_find(object, name, 0);
    const unsigned type = symbol ? symbol->st_info & 0xf : STT_OBJECT;

    return type == STT_FUNC || type == STT_NOTYPE ? symbol : NULL;
}

unsigned gf_object_version(const struct gf_object *object, uint32_t hash)
{
    const ElfW(Verdef) *at = object->defined;

    while (at) {
        if (at->vd_hash == hash && at->vd_ndx >= FIRST_VERSION)
            return at->vd_ndx;
        at = at->vd_next ? (const void *)((const char *)at + at->vd_next) : NULL;
    }
    return 0;
}
