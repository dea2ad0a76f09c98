/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/report_data.h"

#include "base/fmt.h"
#include "base/path.h"
#include "base/symbols.h"

#include <link.h>

static const struct known {
    const char *word, *allocator;
} symbols[] = {
    {"mi_malloc", "mimalloc"},        {"je_malloc", "jemalloc"},
    {"je_arrow_mallctl", "jemalloc"}, {"je_arrow_mallocx", "jemalloc"},
    {"_rjem_malloc", "jemalloc"},     {"_rjem_mallocx", "jemalloc"},
    {"_rjem_je_malloc", "jemalloc"},  {"duckdb_je_malloc", "jemalloc"},
    {"tc_malloc", "tcmalloc"},        {"TCMallocInternalMalloc", "tcmalloc"},
    {"scalable_malloc", "TBB's"},     {"rpmalloc", "rpmalloc"},
    {"sn_rust_alloc", "snmalloc"},
};

/* Libraries whose allocators have hidden symbols. `word` is the beginning of the file name. */
static const struct known files[] = {
    {"libarrow.so", "jemalloc or mimalloc"},
    {"polars", "jemalloc or mimalloc"},
    {"_polars", "jemalloc or mimalloc"},
    {"duckdb", "jemalloc"},
    {"_duckdb", "jemalloc"},
    {"libduckdb", "jemalloc"},
    {"_raylet", "jemalloc"},
    {"libtensorflow_framework", "its own"},
};

/* Whether the file is the library of a CPython without the GIL, such as libpython3.13t.so. */
static bool is_free_threading(const char *file)
{
    if (!gf_begins(file, "libpython3."))
        return false;
    file += strlen("libpython3.");
    file += strspn(file, "0123456789");
    return *file == 't';
}

static const char *allocator_by_file(const char *file)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(files); i++)
        if (gf_begins(file, files[i].word))
            return files[i].allocator;
    return is_free_threading(file) ? "mimalloc" : NULL;
}

/*
 * dl_iterate_phdr calls this function under the loader's lock. The lock is recursive, so symbols of
 * the object may be searched here.
 */
static int visit_object(struct dl_phdr_info *info, size_t size, void *closure)
{
    struct gf_embedded *ret = closure;
    struct gf_symbol found;

    (void)size;
    /* If an object exports malloc, this library interposes its allocator, so it is not listed. */
    if (gf_symbol_find_in(info->dlpi_addr, "malloc", &found))
        return 0;
    const char *file = gf_path_file_name(info->dlpi_name);
    struct gf_embedded_one one = {.allocator = allocator_by_file(file)};
    for (size_t i = 0; i < GF_ARRAY_LEN(symbols) && !one.allocator; i++)
        if (gf_symbol_find_in(info->dlpi_addr, symbols[i].word, &found)) {
            one.allocator = symbols[i].allocator;
            one.symbol = symbols[i].word;
        }
    if (!one.allocator || ret->count == GF_EMBEDDED_MAX)
        return 0;
    gf_fmt(one.object, sizeof(one.object), "%s", *file ? file : "the program");
    ret->one[ret->count++] = one;
    return 0;
}

static int count_changes(struct dl_phdr_info *info, size_t size, void *closure)
{
    unsigned long long *changes = closure;
    (void)size;
    *changes = info->dlpi_adds + info->dlpi_subs;
    return 1;
}

void gf_embedded_read(struct gf_embedded *embedded)
{
    unsigned long long changes = 0;

    dl_iterate_phdr(count_changes, &changes);
    if (changes == embedded->changes)
        return;
    embedded->count = 0;
    embedded->changes = changes;
    dl_iterate_phdr(visit_object, embedded);
}
