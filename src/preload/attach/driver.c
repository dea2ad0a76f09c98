/* SPDX-License-Identifier: Apache-2.0 */
#define GPUFEED_BUILDING

#include "preload/attach/driver.h"

#include "base/atomic.h"
#include "base/path.h"
#include "gpufeed.h"
#include "preload/attach/counters.h"
#include "preload/attach/originals.h"

#include <elf.h>
#include <link.h>

/*
 * If no definition of dlopen follows the object in search order, the object itself was opened by
 * dlopen, so it intercepts no call. Another copy of this library is not a shim either.
 */
static bool is_shim(const struct gf_symbol *object)
{
    struct gf_symbol found;
    return gf_symbol_find("dlopen", object->address, &found) && !gf_own_image_is(object->base) &&
           (gf_symbol_find_in(object->base, "dlopen", &found) ||
            gf_begins(gf_path_file_name(object->object), "libcuda-injection"));
}

static bool find_shim(struct gf_symbol *ret)
{
    bool found = gf_symbol_find("cuInit", _DYNAMIC, ret);
    while (found && !is_shim(ret))
        found = gf_symbol_find("cuInit", ret->address, ret);
    return found;
}

const struct gf_symbol *gf_driver_shim(void)
{
    static struct gf_symbol shim; /* every thread stores the same value */
    static _Atomic int known;     /* 1: none, 2: found */
    int answer = gf_load_acquire(&known);
    if (gf_unlikely(!answer)) {
        struct gf_symbol found;
        answer = find_shim(&found) ? 2 : 1;
        if (answer == 2)
            shim = found;
        gf_store_release(&known, answer);
    }
    return answer == 2 ? &shim : NULL;
}

bool gf_driver_shim_is_own_handle(void *handle)
{
    /*
     * A shim may return handles that do not come from the loader, and which point to no link_map. A
     * handle by which our symbol is found comes from the loader.
     */
    return handle != RTLD_DEFAULT && handle != RTLD_NEXT &&
           gf_originals()->dlsym(handle, "gpufeed_version") == (void *)gpufeed_version &&
           ((const struct link_map *)handle)->l_ld == _DYNAMIC;
}

/* All functions of the driver that the library hooks or calls. */
static const struct {
    const char *symbol;
    size_t offset; /* offset in struct gf_cuda */
} functions[] = {
#define GF_CU(symbol) {#symbol, offsetof(struct gf_cuda, symbol)},
#define GF_CU_USE(symbol) {#symbol, offsetof(struct gf_cuda, symbol)},
#include "abi/hooks.def"
};

static struct gf_driver *_Atomic published;

/* A search for a loaded object, and its result. */
struct object {
    uintptr_t address; /* an address in the wanted object; 0: any object */
    uintptr_t base, start, end;
    const char *path;
};

static int match_object(struct dl_phdr_info *info, size_t size, void *closure)
{
    struct object *object = closure;
    uintptr_t start = UINTPTR_MAX, end = 0;

    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD)
            continue;
        start = gf_min(start, info->dlpi_addr + segment->p_vaddr);
        end = gf_max(end, info->dlpi_addr + segment->p_vaddr + segment->p_memsz);
    }
    if (object->address && (object->address < start || object->address >= end))
        return 0;
    object->base = info->dlpi_addr;
    object->start = start;
    object->end = end;
    object->path = info->dlpi_name;
    return 1;
}

static int match_libcuda(struct dl_phdr_info *info, size_t size, void *closure)
{
    /* a version may follow */
    return gf_begins(gf_path_file_name(info->dlpi_name), "libcuda.so")
               ? match_object(info, size, closure)
               : 0;
}

/*
 * Keeps the object loaded until the process ends, because the table stores addresses in it. Returns
 * false if another object has replaced it.
 */
static bool pin_object(const struct object *object)
{
    const struct link_map *map =
        gf_originals()->dlopen(object->path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (!map) {
        dlerror(); /* clears this call's error, so that the program does not see it */
        return false;
    }
    return map->l_addr == object->base;
}

/* Searches the shim first, then the libcuda behind it, as the loader would. */
static void fill_table(struct gf_driver *table, const struct object *driver,
                       const struct object *behind)
{
    struct gf_symbol found;

    table->start = driver->start;
    table->end = driver->end;
    table->behind_start = behind->start;
    table->behind_end = behind->end;
    for (size_t i = 0; i < GF_ARRAY_LEN(functions); i++)
        if (gf_symbol_find_in(driver->base, functions[i].symbol, &found) ||
            (behind->end && gf_symbol_find_in(behind->base, functions[i].symbol, &found)))
            memcpy((char *)&table->functions + functions[i].offset, &found.address,
                   sizeof(found.address));
}

/*
 * Returns the published table if it belongs to this driver, otherwise publishes a new one. NULL if
 * out of memory.
 */
static struct gf_driver *publish_table(const struct object *driver, const struct object *behind)
{
    struct gf_driver *there = gf_load_acquire(&published);
    if (there && there->start == driver->start && there->end == driver->end &&
        there->behind_start == behind->start)
        return there;
    struct gf_driver *mine =
        mmap(NULL, sizeof(*mine), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mine == MAP_FAILED)
        return NULL;
    fill_table(mine, driver, behind);
    if (gf_cas_acq_rel(&published, &there, mine))
        return mine;
    munmap(mine, sizeof(*mine));
    return there;
}

/* A shim was loaded when the process started, so it is never unloaded. */
static struct gf_driver *build_for_shim(void)
{
    struct object shim = {.address = (uintptr_t)gf_driver_shim()->address}, behind = {0};
    if (!dl_iterate_phdr(match_object, &shim))
        return NULL;
    dl_iterate_phdr(match_libcuda, &behind);
    return publish_table(&shim, &behind);
}

/*
 * Builds and publishes the table of the loaded driver. pin: keeps the driver loaded, which takes
 * the loader's lock. If pin is false, the table must be built again before each use, to check that
 * the driver is still loaded.
 */
static GF_COLD const struct gf_driver *build_table(const void *address, bool pin)
{
    gf_keep_errno();
    static const struct object none;
    struct object driver = {.address = (uintptr_t)address};
    struct gf_driver *ret = NULL;

    gf_thread.inside++;
    if (gf_driver_shim())
        ret = build_for_shim();
    else if (dl_iterate_phdr(match_libcuda, &driver) && (!pin || pin_object(&driver)))
        ret = publish_table(&driver, &none);
    if (ret && pin)
        gf_store_release(&ret->pinned, true);
    gf_thread.inside--;
    return ret;
}

static bool is_pinned(const struct gf_driver *driver)
{
    return driver && gf_load_acquire(&driver->pinned);
}

void gf_driver_trust(void)
{
    struct gf_driver *driver = gf_load_acquire(&published);
    if (driver)
        gf_store_release(&driver->pinned, true);
}

void gf_driver_pin(void)
{
    const struct gf_driver *driver = gf_driver();
    if (driver)
        build_table((const void *)driver->start, true);
}

const struct gf_driver *gf_driver(void)
{
    return gf_load_acquire(&published);
}

const struct gf_driver *gf_driver_by_address(const void *address)
{
    const struct gf_driver *driver = gf_driver();
    return gf_likely(is_pinned(driver)) ? driver : build_table(address, true);
}

const struct gf_cuda *gf_driver_functions(void)
{
    const struct gf_driver *driver = gf_driver();
    if (gf_unlikely(!is_pinned(driver)))
        driver = build_table(NULL, false);
    return gf_likely(driver) ? &driver->functions : NULL;
}

bool gf_driver_contains(const void *address)
{
    const struct gf_driver *driver = gf_driver();
    return driver &&
           ((uintptr_t)address - driver->start < driver->end - driver->start ||
            (uintptr_t)address - driver->behind_start < driver->behind_end - driver->behind_start);
}

/* Exported to programs. Also used to recognise a handle of this library (driver.c). */

const char *gpufeed_version(void)
{
    return GF_VERSION;
}
