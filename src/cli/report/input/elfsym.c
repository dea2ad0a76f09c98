/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/input/elfsym.h"

#include "base/elf_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUILD_ID_MAX 64

#define SYMBOLS_MOST ((size_t)1 << 24) /* many times those of the largest library of PyTorch */

struct function {
    uint64_t start, end;
    uint32_t name;
    uint32_t row; /* index in the file's symbol table */
};

/* Addresses from `start` up to the next range; `function` is UINT32_MAX if there is none. */
struct range {
    uint64_t start;
    uint32_t function;
};

struct gf_elfsym {
    struct gf_elf_view view;
    struct gf_elf_symbols symbols;
    struct function *functions; /* sorted by start */
    struct range *ranges;       /* sorted by start, so that a search takes a logarithmic time */
    size_t function_count, range_count;
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

static size_t count_functions(const struct gf_elf_symbols *symbols)
{
    size_t count = 0;

    for (size_t i = 0; i < symbols->count; i++)
        count += is_function(symbols, &symbols->list[i]);
    return count;
}

/* Collects the file's functions, sorted by start. */
static void sort_functions(struct gf_elfsym *file)
{
    for (size_t i = 0; i < file->symbols.count; i++) {
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
    qsort(file->functions, file->function_count, sizeof(*file->functions), compare_functions);
}

static void add_range(struct gf_elfsym *file, uint64_t start, uint32_t function)
{
    file->ranges[file->range_count++] = (struct range){start, function};
}

/*
 * Divides the addresses into ranges, in each of which the same function is innermost: of those that
 * contain an address, the one that starts last. `open` holds the functions that have started and
 * not yet ended, the innermost last. At most two ranges are added for each function.
 */
static void divide(struct gf_elfsym *file, uint32_t *open)
{
    size_t depth = 0;

    for (size_t i = 0; i <= file->function_count; i++) {
        const bool is_last = i == file->function_count;
        const uint64_t next = is_last ? UINT64_MAX : file->functions[i].start;
        while (depth && file->functions[open[depth - 1]].end <= next) {
            const uint64_t end = file->functions[open[--depth]].end;
            while (depth && file->functions[open[depth - 1]].end <= end)
                depth--;
            add_range(file, end, depth ? open[depth - 1] : UINT32_MAX);
        }
        if (is_last)
            return;
        add_range(file, next, (uint32_t)i);
        open[depth++] = (uint32_t)i;
    }
}

/* If memory is short, or the table is too large, the file has no names. */
static void read_functions(struct gf_elfsym *file)
{
    if (!gf_elf_view_symbols(&file->view, &file->symbols) || file->symbols.count > SYMBOLS_MOST)
        return;
    const size_t count = count_functions(&file->symbols);
    uint32_t *open = calloc(count + 1, sizeof(*open));
    file->functions = calloc(count + 1, sizeof(*file->functions));
    file->ranges = calloc(2 * count + 1, sizeof(*file->ranges));
    if (open && file->functions && file->ranges) {
        sort_functions(file);
        divide(file, open);
    }
    free(open);
}

struct gf_elfsym *gf_elfsym_open(const char *path, const char *build_id)
{
    struct gf_elfsym *file = calloc(1, sizeof(*file));

    if (!file || gf_elf_view_open(path, &file->view)) {
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
    free(file->ranges);
    free(file);
}

const char *gf_elfsym_function(const struct gf_elfsym *file, uint64_t offset,
                               uint64_t *ret_distance)
{
    size_t low = 0, high = file->range_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (file->ranges[middle].start <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || file->ranges[low - 1].function == UINT32_MAX)
        return NULL;
    const struct function *function = &file->functions[file->ranges[low - 1].function];
    *ret_distance = offset - function->start;
    return file->symbols.strings + function->name;
}
