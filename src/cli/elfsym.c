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

struct gf_elf {
    const unsigned char *bytes;
    size_t size;
    const ElfW(Sym) *symbols;
    size_t count;
    const char *strings;
    size_t strings_size;
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
    return elf;
}

void gf_elf_close(struct gf_elf *elf)
{
    munmap((void *)(uintptr_t)elf->bytes, elf->size);
    free(elf);
}

const char *gf_elf_function(const struct gf_elf *elf, uint64_t offset, uint64_t *ret_distance)
{
    const ElfW(Sym) *best = NULL;

    for (size_t i = 0; i < elf->count; i++) {
        const ElfW(Sym) *symbol = &elf->symbols[i];
        const unsigned type = symbol->st_info & 0xf;
        if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF ||
            symbol->st_name >= elf->strings_size || symbol->st_value > offset ||
            offset - symbol->st_value >= symbol->st_size)
            continue;
        if (!best || symbol->st_value > best->st_value)
            best = symbol;
    }
    if (!best)
        return NULL;
    *ret_distance = offset - best->st_value;
    return elf->strings + best->st_name;
}
