/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/elfsym.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct function {
    uint64_t start, end;
    uint64_t reach; /* the end of those up to this one that ends last */
    uint32_t name;
    uint32_t row; /* in the file */
};

struct gf_elf {
    const unsigned char *bytes;
    size_t size;
    const ElfW(Sym) *symbols;
    size_t count;
    const char *strings;
    size_t strings_size;
    struct function *functions; /* by their starts: a log asks for the same few of a million */
    size_t function_count;
};

/* A file may be cut or made up: nothing outside of it is looked at, nor anything at an odd place. */
static const void *inside(const struct gf_elf *elf, uint64_t offset, uint64_t size, size_t align)
{
    return offset <= elf->size && size <= elf->size - offset && offset % align == 0
               ? elf->bytes + offset
               : NULL;
}

static const ElfW(Ehdr) *header(const struct gf_elf *elf)
{
    const ElfW(Ehdr) *head = inside(elf, 0, sizeof(*head), 1);
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_shentsize != sizeof(ElfW(Shdr)))
        return NULL;
    return head;
}

static const ElfW(Shdr) *section(const struct gf_elf *elf, unsigned i)
{
    const ElfW(Ehdr) *head = header(elf);
    return i < head->e_shnum
               ? inside(elf, head->e_shoff + i * sizeof(ElfW(Shdr)), sizeof(ElfW(Shdr)),
                        _Alignof(ElfW(Shdr)))
               : NULL;
}

static bool has_id(const struct gf_elf *elf, const char *wanted)
{
    const ElfW(Shdr) *at;
    char hex[129] = "";

    for (unsigned i = 0; (at = section(elf, i)); i++) {
        const ElfW(Nhdr) *note = inside(elf, at->sh_offset, sizeof(*note), _Alignof(ElfW(Nhdr)));
        if (at->sh_type != SHT_NOTE || !note || note->n_type != NT_GNU_BUILD_ID ||
            note->n_namesz != 4 || !note->n_descsz || note->n_descsz > 64)
            continue;
        const unsigned char *id = inside(elf, at->sh_offset + sizeof(*note) + 4, note->n_descsz, 1);
        for (unsigned k = 0; id && k < note->n_descsz; k++)
            snprintf(hex + 2 * k, 3, "%02x", id[k]);
        if (id && strcmp(hex, wanted) == 0)
            return true;
    }
    return false;
}

static void take_symbols(struct gf_elf *elf, const ElfW(Shdr) *table)
{
    const ElfW(Shdr) *names = section(elf, table->sh_link);
    const void *symbols =
        inside(elf, table->sh_offset, table->sh_size, _Alignof(ElfW(Sym)));
    const char *strings = names ? inside(elf, names->sh_offset, names->sh_size, 1) : NULL;

    if (!symbols || !strings || !names->sh_size || strings[names->sh_size - 1])
        return;
    elf->symbols = symbols;
    elf->count = table->sh_size / sizeof(ElfW(Sym));
    elf->strings = strings;
    elf->strings_size = names->sh_size;
}

static void find_symbols(struct gf_elf *elf)
{
    const ElfW(Shdr) *at;

    for (unsigned i = 0; (at = section(elf, i)); i++)
        if (at->sh_type == SHT_SYMTAB || (at->sh_type == SHT_DYNSYM && !elf->symbols))
            take_symbols(elf, at);
}

/* Of two names for one function the first in the file stands last. */
static int by_start(const void *a, const void *b)
{
    const struct function *one = a, *other = b;

    if (one->start != other->start)
        return one->start < other->start ? -1 : 1;
    return one->row > other->row ? -1 : one->row < other->row;
}

static bool is_function(const struct gf_elf *elf, const ElfW(Sym) *symbol)
{
    const unsigned type = symbol->st_info & 0xf;
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
           symbol->st_size && symbol->st_name < elf->strings_size;
}

static void sort_functions(struct gf_elf *elf)
{
    uint64_t reach = 0;

    elf->functions = calloc(elf->count, sizeof(*elf->functions));
    for (size_t i = 0; elf->functions && i < elf->count; i++) {
        const ElfW(Sym) *symbol = &elf->symbols[i];
        struct function *function = &elf->functions[elf->function_count];
        if (!is_function(elf, symbol))
            continue;
        *function = (struct function){.start = symbol->st_value, .name = symbol->st_name, .row = (uint32_t)i};
        if (__builtin_add_overflow(symbol->st_value, symbol->st_size, &function->end))
            function->end = UINT64_MAX;
        elf->function_count++;
    }
    if (elf->function_count)
        qsort(elf->functions, elf->function_count, sizeof(*elf->functions), by_start);
    for (size_t i = 0; i < elf->function_count; i++)
        elf->functions[i].reach = reach = gf_max(reach, elf->functions[i].end);
}

static bool map_file(const char *path, struct gf_elf *ret)
{
    struct stat found;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return false;
    void *bytes = MAP_FAILED;
    if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size > 0)
        bytes = mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return false;
    *ret = (struct gf_elf){.bytes = bytes, .size = (size_t)found.st_size};
    return true;
}

struct gf_elf *gf_elf_open(const char *path, const char *build_id)
{
    struct gf_elf *elf = calloc(1, sizeof(*elf));

    if (!elf || !map_file(path, elf)) {
        free(elf);
        return NULL;
    }
    if (!header(elf) || (*build_id && !has_id(elf, build_id))) {
        gf_elf_close(elf);
        return NULL;
    }
    find_symbols(elf);
    sort_functions(elf);
    return elf;
}

void gf_elf_close(struct gf_elf *elf)
{
    munmap((void *)(uintptr_t)elf->bytes, elf->size);
    free(elf->functions);
    free(elf);
}

const char *gf_elf_function(const struct gf_elf *elf, uint64_t offset, uint64_t *ret_distance)
{
    size_t low = 0, high = elf->function_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (elf->functions[middle].start <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low > 0 && elf->functions[low - 1].reach > offset; low--) {
        const struct function *function = &elf->functions[low - 1];
        if (function->end <= offset)
            continue;
        *ret_distance = offset - function->start;
        return elf->strings + function->name;
    }
    return NULL;
}
