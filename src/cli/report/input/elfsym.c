/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/input/elfsym.h"

#include "base/elf_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUILD_ID_MAX 64

struct function {
    uint64_t start, end;
    uint64_t reach; /* the largest `end` of this function and all functions before it */
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
static int compare_functions(const void *a, const void *b)
{
    const struct function *one = a, *other = b;

    if (one->start != other->start)
        return one->start < other->start ? -1 : 1;
    return one->row > other->row ? -1 : one->row < other->row;
}

static bool is_function(const struct gf_elf_symbols *symbols, const Elf64_Sym *symbol)
{
    const unsigned type = ELF64_ST_TYPE(symbol->st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
           symbol->st_size && symbol->st_name < symbols->strings_size;
}

/* Collects the file's functions, sorted by start. If memory is short, the list stays empty. */
static void sort_functions(struct gf_elfsym *file)
{
    uint64_t reach = 0;

    file->functions = calloc(file->symbols.count, sizeof(*file->functions));
    for (size_t i = 0; file->functions && i < file->symbols.count; i++) {
        const Elf64_Sym *symbol = &file->symbols.list[i];
        struct function *function = &file->functions[file->function_count];
        if (!is_function(&file->symbols, symbol))
            continue;
        *function = (struct function){
            .start = symbol->st_value, .name = symbol->st_name, .row = (uint32_t)i};
        if (__builtin_add_overflow(symbol->st_value, symbol->st_size, &function->end))
            function->end = UINT64_MAX;
        file->function_count++;
    }
    if (!file->functions)
        return;
    if (file->function_count)
        qsort(file->functions, file->function_count, sizeof(*file->functions), compare_functions);
    for (size_t i = 0; i < file->function_count; i++)
        file->functions[i].reach = reach = gf_max(reach, file->functions[i].end);
}

struct gf_elfsym *gf_elfsym_open(const char *path, const char *build_id)
{
    struct gf_elfsym *file = calloc(1, sizeof(*file));

    if (!file || gf_elf_view_open(path, &file->view)) {
        free(file);
        return NULL;
    }
    if (!gf_elf_view_header(&file->view) || (*build_id && !has_build_id(&file->view, build_id))) {
        gf_elfsym_close(file);
        return NULL;
    }
    if (gf_elf_view_symbols(&file->view, &file->symbols))
        sort_functions(file);
    return file;
}

void gf_elfsym_close(struct gf_elfsym *file)
{
    gf_elf_view_close(&file->view);
    free(file->functions);
    free(file);
}

const char *gf_elfsym_function(const struct gf_elfsym *file, uint64_t offset,
                               uint64_t *ret_distance)
{
    size_t low = 0, high = file->function_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (file->functions[middle].start <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low > 0 && file->functions[low - 1].reach > offset; low--) {
        const struct function *function = &file->functions[low - 1];
        if (function->end <= offset)
            continue;
        *ret_distance = offset - function->start;
        return file->symbols.strings + function->name;
    }
    return NULL;
}
