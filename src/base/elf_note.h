/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the build id in a section of ELF notes. */
#ifndef GF_BASE_ELF_NOTE_H
#define GF_BASE_ELF_NOTE_H

#include "base/base.h"

#include <elf.h>
#include <string.h>

/*
 * Returns the build id, and sets *ret_length to its length in bytes. Returns NULL if not found. The
 * notes are aligned to 4 bytes, as GNU tools write them. Reads only the given bytes, and calls only
 * memcpy.
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

#endif
