/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/stacks/examine.h"

#include "base/clock.h"
#include "base/elf_view.h"
#include "base/path.h"
#include "tools/common/text.h"

#include <stdlib.h>
#include <sys/stat.h>

FILE *gf_maps_open(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    return fopen(path, "re");
}

/* Parses a line like "start-end rwxp offset device inode path". */
static bool parse(struct gf_maps_line *line)
{
    char *p;

    line->start = strtoul(line->text, &p, 16);
    if (*p++ != '-')
        return false;
    line->end = strtoul(p, &p, 16);
    if (strlen(p) < 6)
        return false;
    line->executable = p[3] == 'x';
    line->offset = strtoul(p + 5, &p, 16);
    p += strspn(p, " ");
    p += strcspn(p, " "); /* device */
    line->inode = strtoul(p, &p, 10);
    line->path = p + strspn(p, " ");
    return true;
}

/*
 * 65 530 mappings, the kernel's default limit, have less than 8 MiB of usual paths. A process may
 * have paths of 4 KiB.
 */
#define MAPS_MOST_BYTES (32 << 20)

bool gf_maps_next(FILE *maps, struct gf_maps_line *ret)
{
    while (ftello(maps) < MAPS_MOST_BYTES && fgets(ret->text, sizeof(ret->text), maps)) {
        ret->text[strcspn(ret->text, "\n")] = '\0';
        if (parse(ret))
            return true;
    }
    return false;
}

void gf_maps_file(pid_t pid, const char *path, ino_t inode, char *ret, size_t size)
{
    struct stat status;
    const int root = snprintf(ret, size, "/proc/%d/root", pid);

    snprintf(ret + root, size - (size_t)root, "%s", path);
    if (stat(ret, &status) != 0 && stat(ret + root, &status) == 0 && status.st_ino == inode)
        memmove(ret, ret + root, strlen(ret + root) + 1);
}

struct object {
    uintptr_t start, end, offset; /* addresses and file offset of one mapping */
    ino_t inode;
    char path[512];
    bool opened; /* true: an attempt to open the file was made */
    struct gf_elf_view view;
    struct gf_elf_symbols symbols;
};

/*
 * After this time, functions have no names: the process may have a library with many symbols, or
 * libraries on a file system that is slow.
 */
#define NAMES_NS UINT64_C(5000000000)

struct gf_objects {
    pid_t pid;
    uint64_t until_ns;
    struct object *list;
    size_t count;
};

static bool add_object(struct gf_objects *objects, const struct gf_maps_line *line)
{
    struct object *more = realloc(objects->list, (objects->count + 1) * sizeof(*more));
    if (!more)
        return false;
    objects->list = more;
    more += objects->count++;
    *more = (struct object){
        .start = line->start, .end = line->end, .offset = line->offset, .inode = line->inode};
    snprintf(more->path, sizeof(more->path), "%s", line->path);
    return true;
}

struct gf_objects *gf_objects_read(pid_t pid)
{
    struct gf_objects *objects = calloc(1, sizeof(*objects));
    struct gf_maps_line line;
    FILE *maps = objects ? gf_maps_open(pid) : NULL;

    if (!maps) {
        free(objects);
        return NULL;
    }
    objects->pid = pid;
    objects->until_ns = gf_now_ns() + NAMES_NS;
    while (gf_maps_next(maps, &line))
        if (line.executable && !add_object(objects, &line))
            break;
    fclose(maps);
    return objects;
}

static void open_object(const struct gf_objects *objects, struct object *object)
{
    char path[64 + sizeof(object->path)];

    object->opened = true;
    gf_maps_file(objects->pid, object->path, object->inode, path, sizeof(path));
    if (object->path[0] != '/' || gf_elf_view_open(path, &object->view) != 0)
        object->view = (struct gf_elf_view){0};
    else if (!gf_elf_view_symbols(&object->view, &object->symbols))
        object->symbols = (struct gf_elf_symbols){0};
}

/*
 * Returns the address that the linker assigned to the byte that is mapped at `address`; 0 if
 * unknown.
 */
static uintptr_t linked_address(const struct object *object, uintptr_t address)
{
    const uintptr_t offset = address - object->start + object->offset;
    size_t count;
    const Elf64_Phdr *segment = gf_elf_view_segments(&object->view, &count);

    for (; segment && count; segment++, count--)
        if (segment->p_type == PT_LOAD && offset >= segment->p_offset &&
            offset - segment->p_offset < segment->p_filesz)
            return offset - segment->p_offset + segment->p_vaddr;
    return 0;
}

/* Copies the symbol, because another process may write to the file. */
static bool find_covering(const struct gf_elf_symbols *symbols, uintptr_t linked, Elf64_Sym *ret)
{
    for (size_t i = 0; i < symbols->count; i++) {
        *ret = symbols->list[i];
        if (ELF64_ST_TYPE(ret->st_info) == STT_FUNC && ret->st_name < symbols->strings_size &&
            linked >= ret->st_value && linked - ret->st_value < ret->st_size)
            return true;
    }
    return false;
}

static void name_in_object(const struct object *object, uintptr_t address, bool in_time, char *ret,
                           size_t size)
{
    const uintptr_t linked = object->view.bytes ? linked_address(object, address) : 0;
    const char *name = gf_path_file_name(object->path), *function;
    Elf64_Sym symbol;

    if (linked && in_time && find_covering(&object->symbols, linked, &symbol)) {
        function = object->symbols.strings + symbol.st_name;
        snprintf(ret, size, "%.*s+0x%lx (%s)", gf_elf_name_most(&object->symbols, function),
                 function, (unsigned long)(linked - symbol.st_value), name);
    } else {
        snprintf(ret, size, "%s+0x%lx", name,
                 (unsigned long)(linked ? linked : address - object->start + object->offset));
    }
}

bool gf_objects_name(struct gf_objects *objects, uintptr_t address, char *ret, size_t size)
{
    const size_t count = objects ? objects->count : 0;
    /* The kernel lists the mappings in the order of their addresses. */
    const size_t at = GF_FRONT_COUNT(i, count, address >= objects->list[i].end);

    snprintf(ret, size, "0x%lx", (unsigned long)address);
    if (at == count || address < objects->list[at].start)
        return !objects;
    struct object *object = &objects->list[at];
    const bool in_time = gf_now_ns() < objects->until_ns;
    if (!object->opened && in_time)
        open_object(objects, object);
    if (object->path[0])
        name_in_object(object, address, in_time, ret, size);
    return true;
}
