/* SPDX-License-Identifier: Apache-2.0 */
#include "base/elf_view.h"

#include "base/input_file.h"

#include <sys/stat.h>

/*
 * No real file has more sections, more bytes of notes before its build id, or more symbols. A crafted
 * file may have 65 535 sections that all name the same bytes, or a sparse table of terabytes.
 */
#define SECTIONS_MOST 512
#define NOTES_MOST 4096                /* longer sections of notes are not counted, and not read */
#define SYMBOLS_MOST ((size_t)1 << 24) /* many times those of the largest library of PyTorch */

int gf_elf_view_open(const char *path, struct gf_elf_view *ret)
{
    struct stat found;
    const int fd = gf_input_open(path);

    if (fd < 0)
        return fd;
    int error = fstat(fd, &found) ? -errno : 0;
    if (!error && (!S_ISREG(found.st_mode) || found.st_size <= 0))
        error = -EINVAL;
    if (!error) {
        void *bytes = mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        error = bytes == MAP_FAILED ? -errno : 0;
        *ret = (struct gf_elf_view){bytes, (size_t)found.st_size};
    }
    close(fd);
    return error;
}

void gf_elf_view_close(struct gf_elf_view *view)
{
    munmap((void *)(uintptr_t)view->bytes, view->size);
    *view = (struct gf_elf_view){0};
}

/*
 * Returns the address of the `size` bytes at this offset of the file. Returns NULL if the file ends
 * before these bytes, or if the offset is not a multiple of align.
 */
static const void *bytes_at(const struct gf_elf_view *view, uint64_t offset, uint64_t size,
                            size_t align)
{
    return offset <= view->size && size <= view->size - offset && offset % align == 0
               ? view->bytes + offset
               : NULL;
}

const Elf64_Ehdr *gf_elf_view_header(const struct gf_elf_view *view)
{
    const Elf64_Ehdr *header = bytes_at(view, 0, sizeof(*header), 1);
    return header && memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 ? header : NULL;
}

static const Elf64_Ehdr *header_64(const struct gf_elf_view *view)
{
    const Elf64_Ehdr *header = gf_elf_view_header(view);
    return header && header->e_ident[EI_CLASS] == ELFCLASS64 ? header : NULL;
}

const Elf64_Phdr *gf_elf_view_segments(const struct gf_elf_view *view, size_t *ret_count)
{
    const Elf64_Ehdr *header = header_64(view);

    *ret_count = 0;
    if (!header || header->e_phentsize != sizeof(Elf64_Phdr))
        return NULL;
    const size_t count = *(const volatile Elf64_Half *)&header->e_phnum; /* read once */
    const Elf64_Phdr *segments =
        bytes_at(view, header->e_phoff, count * sizeof(Elf64_Phdr), _Alignof(Elf64_Phdr));
    *ret_count = segments ? count : 0;
    return segments;
}

const Elf64_Phdr *gf_elf_view_segment(const struct gf_elf_view *view, uint32_t type)
{
    size_t count;
    const Elf64_Phdr *segments = gf_elf_view_segments(view, &count);

    for (size_t i = 0; i < count; i++)
        if (segments[i].p_type == type)
            return &segments[i];
    return NULL;
}

/*
 * Copies a section's header. Another process may write to the file, so a number that was checked must
 * not be read again.
 */
static bool section_at(const struct gf_elf_view *view, size_t index, Elf64_Shdr *ret)
{
    const Elf64_Ehdr *header = header_64(view);

    if (!header || header->e_shentsize != sizeof(Elf64_Shdr) || index >= header->e_shnum ||
        index >= SECTIONS_MOST)
        return false;
    const void *section = bytes_at(view, header->e_shoff + index * sizeof(Elf64_Shdr),
                                   sizeof(Elf64_Shdr), _Alignof(Elf64_Shdr));
    if (section)
        memcpy(ret, section, sizeof(*ret));
    __asm__ volatile("" ::: "memory");
    return section;
}

#define DYNAMIC_MOST 4096 /* entries; the linker writes about 40 */

static bool has_dynamic_end(const struct gf_elf_view *view, const Elf64_Phdr *segment)
{
    const size_t count = gf_min(segment->p_filesz / sizeof(Elf64_Dyn), (Elf64_Xword)DYNAMIC_MOST);
    Elf64_Dyn entry = {.d_tag = DT_DEBUG};

    for (size_t i = 0; i < count && entry.d_tag != DT_NULL; i++)
        memcpy(&entry, view->bytes + segment->p_offset + i * sizeof(entry), sizeof(entry));
    return entry.d_tag == DT_NULL;
}

#define TABLE_HEAD 12 /* bytes before the table of functions */

/*
 * Whether the table of unwind data has the form that linkers write. libunwind reads no other form: it
 * aborts, or follows pointers of the file. Without a table, linkers write another form.
 */
static bool has_usual_table(const struct gf_elf_view *view, const Elf64_Phdr *segment)
{
    static const char usual[] = {1, 0x1b, 0x03, 0x3b}; /* version, encodings */

    return segment->p_filesz >= TABLE_HEAD &&
           memcmp(view->bytes + segment->p_offset, usual, sizeof(usual)) == 0;
}

static bool has_whole_segments(const struct gf_elf_view *view)
{
    size_t count;
    const Elf64_Phdr *segments = gf_elf_view_segments(view, &count);

    for (size_t i = 0; i < count; i++) {
        const Elf64_Phdr segment = segments[i];
        if (!bytes_at(view, segment.p_offset, segment.p_filesz, 1) ||
            (segment.p_type == PT_DYNAMIC && !has_dynamic_end(view, &segment)) ||
            (segment.p_type == PT_GNU_EH_FRAME && !has_usual_table(view, &segment)))
            return false;
    }
    return segments;
}

static bool has_whole_sections(const struct gf_elf_view *view, const Elf64_Ehdr *header)
{
    Elf64_Shdr names, section;
    const char *text = section_at(view, header->e_shstrndx, &names)
                           ? bytes_at(view, names.sh_offset, names.sh_size, 1)
                           : NULL;

    if (!text || !names.sh_size || text[names.sh_size - 1])
        return !header->e_shnum; /* stripped of all sections */
    for (size_t i = 0; i < header->e_shnum; i++)
        if (!section_at(view, i, &section) || section.sh_name >= names.sh_size ||
            (section.sh_type != SHT_NOBITS &&
             !bytes_at(view, section.sh_offset, section.sh_size, 1)))
            return false;
    return true;
}

bool gf_elf_view_is_whole(const struct gf_elf_view *view)
{
    const Elf64_Ehdr *header = header_64(view);
    return header && has_whole_segments(view) && has_whole_sections(view, header);
}

bool gf_elf_view_interpreter(const struct gf_elf_view *view, char *ret, size_t size)
{
    const Elf64_Phdr *segment = gf_elf_view_segment(view, PT_INTERP);
    const size_t length = segment ? *(const volatile Elf64_Xword *)&segment->p_filesz : 0;
    const char *path =
        length && length <= size ? bytes_at(view, segment->p_offset, length, 1) : NULL;

    if (path)
        memcpy(ret, path, length);
    return path && !ret[length - 1];
}

/* Returns the bytes of the file that the loader would map at this address; NULL if it maps none. */
static const void *at_address(const struct gf_elf_view *view, uint64_t address, uint64_t size)
{
    size_t count;
    const Elf64_Phdr *segments = gf_elf_view_segments(view, &count);

    for (size_t i = 0; i < count; i++) {
        const Elf64_Phdr *segment = &segments[i];
        const uint64_t offset = address - segment->p_vaddr;
        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr && offset < segment->p_filesz)
            return bytes_at(view, segment->p_offset + offset, size, 1);
    }
    return NULL;
}

const char *gf_elf_view_dynamic_strings(const struct gf_elf_view *view, size_t *ret_size)
{
    const Elf64_Phdr *segment = gf_elf_view_segment(view, PT_DYNAMIC);
    const size_t length = segment ? *(const volatile Elf64_Xword *)&segment->p_filesz : 0;
    const Elf64_Dyn *entry =
        segment ? bytes_at(view, segment->p_offset, length, _Alignof(Elf64_Dyn)) : NULL;
    uint64_t address = 0, size = 0;

    for (size_t left = entry ? length / sizeof(*entry) : 0; left && entry->d_tag != DT_NULL;
         left--, entry++) {
        if (entry->d_tag == DT_STRTAB)
            address = entry->d_un.d_ptr;
        else if (entry->d_tag == DT_STRSZ)
            size = entry->d_un.d_val;
    }
    *ret_size = size;
    return address ? at_address(view, address, size) : NULL;
}

const unsigned char *gf_elf_view_build_id(const struct gf_elf_view *view, size_t *ret_length)
{
    Elf64_Shdr section;
    size_t left = NOTES_MOST;

    for (size_t i = 0; section_at(view, i, &section); i++) {
        if (section.sh_type != SHT_NOTE || section.sh_size > left)
            continue;
        left -= section.sh_size;
        const unsigned char *notes = bytes_at(view, section.sh_offset, section.sh_size, 1);
        const unsigned char *id =
            notes ? gf_elf_note_build_id(notes, section.sh_size, ret_length) : NULL;
        if (id)
            return id;
    }
    return NULL;
}

static bool read_symbols(const struct gf_elf_view *view, const Elf64_Shdr *table,
                         struct gf_elf_symbols *ret)
{
    Elf64_Shdr names;
    const void *symbols = bytes_at(view, table->sh_offset, table->sh_size, _Alignof(Elf64_Sym));
    const char *strings = section_at(view, table->sh_link, &names)
                              ? bytes_at(view, names.sh_offset, names.sh_size, 1)
                              : NULL;

    if (table->sh_size / sizeof(Elf64_Sym) > SYMBOLS_MOST || !symbols || !strings ||
        !names.sh_size || strings[names.sh_size - 1])
        return false;
    *ret = (struct gf_elf_symbols){symbols, table->sh_size / sizeof(Elf64_Sym), strings,
                                   names.sh_size};
    return true;
}

bool gf_elf_view_symbols(const struct gf_elf_view *view, struct gf_elf_symbols *ret)
{
    Elf64_Shdr section;
    bool found = false;

    for (size_t i = 0; section_at(view, i, &section); i++)
        if (section.sh_type == SHT_SYMTAB || (section.sh_type == SHT_DYNSYM && !found))
            found = read_symbols(view, &section, ret) || found;
    return found;
}
