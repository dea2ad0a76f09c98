/* SPDX-License-Identifier: Apache-2.0 */
/* A mapped ELF file, and its build id. */
#pragma once

#include "base/base.h"

#include <elf.h>

/* The machine that this program is built for. */
#if defined(__x86_64__)
#define GF_ELF_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define GF_ELF_MACHINE EM_AARCH64
#endif

/*
 * Returns the build id in a section of ELF notes, and sets *ret_length to its length in bytes; NULL
 * if not found. The notes are aligned to 4 bytes, as GNU tools write them. Reads only the given
 * bytes, and calls only memcpy.
 */
static inline const unsigned char *gf_elf_note_build_id(const unsigned char *notes, size_t size,
                                                        size_t *ret_length)
{
    Elf64_Nhdr note;

    while (size >= sizeof(note)) {
        memcpy(&note, notes, sizeof(note));
        const size_t name = sizeof(note) + (((size_t)note.n_namesz + 3) & ~(size_t)3);
        const size_t whole = name + (((size_t)note.n_descsz + 3) & ~(size_t)3);
        if (whole > size)
            return NULL;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") && note.n_descsz) {
            *ret_length = note.n_descsz;
            return notes + name;
        }
        notes += whole;
        size -= whole;
    }
    return NULL;
}

/*
 * A read-only view of an ELF file that is mapped, not loaded. The file may be damaged or crafted:
 * no read is outside the mapping or misaligned. If the file is truncated while it is mapped, reads
 * raise SIGBUS. So only the command uses this view, not the preload library. Allocates nothing. For
 * loaded objects, see base/symbols.h.
 */

struct gf_elf_view {
    const unsigned char *bytes;
    size_t size;
};

/*
 * Maps a regular file of any content. Returns 0 or -errno. The error is -EINVAL if the file is
 * empty or not a regular file.
 */
int gf_elf_view_open(const char *path, struct gf_elf_view *ret);
void gf_elf_view_close(struct gf_elf_view *view);

/* The header; NULL if the file is not ELF. In 32-bit files only e_ident and e_machine are valid. */
const Elf64_Ehdr *gf_elf_view_header(const struct gf_elf_view *view);

/*
 * The functions below return NULL or false if the file is a 32-bit file or lacks the requested
 * part.
 */

/*
 * Whether all segments, sections and names of sections are within the file, the dynamic entries end, and
 * the table of unwind data has its usual form. libunwind does not check this.
 */
bool gf_elf_view_is_whole(const struct gf_elf_view *view);

/* All program headers, and their number in *ret_count. */
const Elf64_Phdr *gf_elf_view_segments(const struct gf_elf_view *view, size_t *ret_count);

/* The first program header of this type. */
const Elf64_Phdr *gf_elf_view_segment(const struct gf_elf_view *view, uint32_t type);

/*
 * Copies the path of the loader that a dynamic program requests (PT_INTERP). Returns false if the
 * path is longer than size.
 */
bool gf_elf_view_interpreter(const struct gf_elf_view *view, char *ret, size_t size);

/*
 * The dynamic string table, with names of symbols and needed libraries. Each name ends with a zero
 * byte.
 */
const char *gf_elf_view_dynamic_strings(const struct gf_elf_view *view, size_t *ret_size);

const unsigned char *gf_elf_view_build_id(const struct gf_elf_view *view, size_t *ret_length);

struct gf_elf_symbols {
    const Elf64_Sym *list;
    size_t count;
    const char *strings; /* ends with a zero byte */
    size_t strings_size;
};

/*
 * How many bytes of a name may be printed. Another process may overwrite the zero byte that ends it.
 */
static inline int gf_elf_name_most(const struct gf_elf_symbols *symbols, const char *name)
{
    const size_t left = symbols->strings_size - (size_t)(name - symbols->strings);
    return (int)gf_min(left, (size_t)1023);
}

/* Finds the symbol table, or in a stripped file the dynamic symbol table. */
bool gf_elf_view_symbols(const struct gf_elf_view *view, struct gf_elf_symbols *ret);
