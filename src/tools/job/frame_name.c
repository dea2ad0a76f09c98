/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/job/job_input.h"

#include "base/elf_view.h"
#include "base/fmt.h"
#include "base/path.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define BUILD_ID_MAX 64
#define SYMBOLS_MOST ((size_t)1 << 24) /* of all files, whose tables may be sparse */

static size_t symbols_read;

struct function {
    uint64_t start, end;
    uint32_t name;
    uint32_t row; /* index in the file's symbol table */
};

struct gf_elfsym {
    struct gf_elf_view view;
    struct gf_elf_symbols symbols;
    struct function *functions; /* sorted by start */
    size_t function_count;
};

static bool has_build_id(const struct gf_elf_view *view, const char *wanted)
{
    char hex[2 * BUILD_ID_MAX + 1] = "";
    size_t length = 0;
    const unsigned char *id = gf_elf_view_build_id(view, &length);

    if (!id || length > BUILD_ID_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        snprintf(hex + 2 * i, 3, "%02x", id[i]);
    return strcmp(hex, wanted) == 0;
}

/*
 * If a function has several names, the first name in the file is sorted last, because the search
 * uses the last one.
 */
GF_COMPARATOR(compare_functions, struct function,
              gf_order(one->start, other->start) ?: gf_order(other->row, one->row))

static bool is_function(const struct gf_elf_symbols *symbols, const Elf64_Sym *symbol)
{
    const unsigned type = ELF64_ST_TYPE(symbol->st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
           symbol->st_size && symbol->st_name < symbols->strings_size;
}

/* Collects the file's functions, sorted by start. */
static void sort_functions(struct gf_elfsym *file)
{
    for (size_t i = 0; i < file->symbols.count; i++) {
        const Elf64_Sym symbol = file->symbols.list[i];
        struct function *function = &file->functions[file->function_count];
        if (!is_function(&file->symbols, &symbol))
            continue;
        *function =
            (struct function){.start = symbol.st_value, .name = symbol.st_name, .row = (uint32_t)i};
        if (__builtin_add_overflow(symbol.st_value, symbol.st_size, &function->end))
            function->end = UINT64_MAX;
        file->function_count++;
    }
    qsort(file->functions, file->function_count, sizeof(*file->functions), compare_functions);
}

/* If the tables are too large, the file has no names. */
static void read_functions(struct gf_elfsym *file)
{
    if (!gf_elf_view_symbols(&file->view, &file->symbols) ||
        file->symbols.count > SYMBOLS_MOST - symbols_read)
        return;
    symbols_read += file->symbols.count;
    file->functions = gf_cli_alloc(file->symbols.count, sizeof(*file->functions));
    sort_functions(file);
}

struct gf_elfsym *gf_elfsym_open(const char *path, const char *build_id)
{
    struct gf_elfsym *file = gf_cli_alloc(1, sizeof(*file));

    if (gf_elf_view_open(path, &file->view)) {
        free(file);
        return NULL;
    }
    if (!gf_elf_view_header(&file->view) || !has_build_id(&file->view, build_id)) {
        gf_elfsym_close(file);
        return NULL;
    }
    read_functions(file);
    return file;
}

void gf_elfsym_close(struct gf_elfsym *file)
{
    gf_elf_view_close(&file->view);
    free(file->functions);
    free(file);
}

/*
 * Of the functions that cover the offset, the one that starts last is the innermost. Few start between
 * it and the offset, unless the file is crafted.
 */
#define INNER_MOST 64

const char *gf_elfsym_function(const struct gf_elfsym *file, uint64_t offset,
                               uint64_t *ret_distance)
{
    const size_t count =
        GF_FRONT_COUNT(i, file->function_count, file->functions[i].start <= offset);

    for (size_t i = count; i-- > 0 && count - i <= INNER_MOST;) {
        const struct function *function = &file->functions[i];
        if (offset < function->end) {
            *ret_distance = offset - function->start;
            return file->symbols.strings + function->name;
        }
    }
    return NULL;
}

#define MODULES_MOST 64 /* of an event; the library writes at most GF_UNWIND_MODULES */

/*
 * The executables and libraries that logs name, each opened once. Two paths of the same build share
 * one table, so that a log cannot make the command sort a large table many times. A file is read
 * only if its build id is that of the log: otherwise its names would be wrong, and any file of this
 * host could be named.
 */
static struct {
    struct gf_text_pool keys, ids; /* path and id; id */
    struct gf_elfsym **files;  /* by the number of the key; NULL if missing or of another build */
    struct gf_elfsym **builds; /* by the number of the id */
    size_t room, build_room;
} objects;

/* The modules of the current event. */
static struct {
    char path[1024];
    struct gf_elfsym *file;
} modules[MODULES_MOST];
static size_t module_count;

static struct gf_elfsym *find_object(const char *path, const char *id)
{
    char key[1024 + 256 + 1];
    bool is_new, is_new_build;
    const int length = snprintf(key, sizeof(key), "%s %s", id, path);

    if (!*id)
        return NULL;
    const uint32_t number = gf_text_pool_add(&objects.keys, key, (size_t)length, &is_new);
    struct gf_elfsym **file = GF_POOL_SLOT(objects.files, number, objects.room);
    if (!is_new)
        return *file;
    const uint32_t build = gf_text_pool_add(&objects.ids, id, strlen(id), &is_new_build);
    struct gf_elfsym **known = GF_POOL_SLOT(objects.builds, build, objects.build_room);
    if (!*known)
        *known = gf_elfsym_open(path, id);
    return *file = *known;
}

void gf_frame_modules(struct gf_span list)
{
    struct gf_scan scan = gf_scan_begin(list, '[');
    struct gf_span module, key, value;

    for (module_count = 0; module_count < MODULES_MOST && gf_scan_element(&scan, &module);
         module_count++) {
        char id[256] = "", *path = modules[module_count].path;
        struct gf_scan members = gf_scan_begin(module, '{');
        *path = '\0';
        while (gf_scan_member(&members, &key, &value)) {
            if (gf_span_is(key, "path"))
                gf_span_text(value, path, sizeof(modules->path));
            else if (gf_span_is(key, "build_id"))
                gf_span_text(value, id, sizeof(id));
        }
        modules[module_count].file = find_object(path, id);
    }
}

bool gf_frame_name_of(struct gf_span frame, bool with_distance, char *buf, size_t size,
                      char ret_path[1024])
{
    char text[64], *rest;
    uint64_t distance;

    gf_span_text(frame, text, sizeof(text));
    const unsigned long number = strtoul(text, &rest, 10);
    if (*rest != '+' || number >= module_count)
        return false;
    const uint64_t offset = strtoull(rest + 1, NULL, 16);
    const struct gf_elfsym *file = modules[number].file;
    const char *path = modules[number].path, *module = gf_path_file_name(path);
    const char *name = file ? gf_elfsym_function(file, offset, &distance) : NULL;
    const int most = name ? gf_elf_name_most(&file->symbols, name) : 0;
    if (name && with_distance)
        snprintf(buf, size, "%.*s+%#lx (%.*s)", most, name, distance, NAME_MAX, module);
    else if (name)
        snprintf(buf, size, "%.*s (%.*s)", most, name, NAME_MAX, module);
    else
        snprintf(buf, size, "%.*s+%#lx", NAME_MAX, module, offset);
    gf_plain_text(buf);
    if (ret_path)
        memcpy(ret_path, path, sizeof(modules->path));
    return true;
}

void gf_frame_name_end(void)
{
    for (size_t i = 0; i < objects.build_room; i++)
        if (objects.builds[i])
            gf_elfsym_close(objects.builds[i]);
    free(objects.builds);
    free(objects.files);
    gf_text_pool_free(&objects.keys);
    gf_text_pool_free(&objects.ids);
    memset(&objects, 0, sizeof(objects));
    module_count = symbols_read = 0;
}

void gf_frame_python(struct gf_span frame, struct gf_python_text *ret)
{
    struct gf_scan scan = gf_scan_begin(frame, '{');
    struct gf_span key, value;

    *ret->file = *ret->function = '\0';
    ret->line = 0;
    while (gf_scan_member(&scan, &key, &value)) {
        if (gf_span_is(key, "file"))
            gf_span_text(value, ret->file, sizeof(ret->file));
        else if (gf_span_is(key, "function"))
            gf_span_text(value, ret->function, sizeof(ret->function));
        else if (gf_span_is(key, "line"))
            ret->line = gf_span_int(value);
    }
}
