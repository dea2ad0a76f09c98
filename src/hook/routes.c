/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/routes.h"

#include "base/symbols.h"
#include "hook/on_cuda.h"
#include "hook/originals.h"
#include "hook/stand_in.h"
#include "hook/thread.h"

#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

struct route {
    const char *symbol;
    void *hook;
    size_t offset; /* of the driver's function in struct gf_cuda */
};

static const struct route hooked[] = {
#define GF_CU(symbol) {#symbol, (void *)gf_on_##symbol, offsetof(struct gf_cuda, symbol)},
#include "hook/hooks.def"
};

/* All that the library knows of the driver: what it hooks and what it only calls. */
static const struct {
    const char *symbol;
    size_t offset;
} functions[] = {
#define GF_CU(symbol) {#symbol, offsetof(struct gf_cuda, symbol)},
#define GF_CU_USE(symbol) {#symbol, offsetof(struct gf_cuda, symbol)},
#include "hook/hooks.def"
};

struct gf_routes {
    struct gf_cuda real;
    uintptr_t start, end;             /* where libcuda is mapped, or its stand-in */
    uintptr_t behind, behind_end;     /* where libcuda is mapped that a stand-in hides; or 0 */
    void *hook[GF_ARRAY_LEN(hooked)]; /* NULL: this entry keeps the driver's address */
    bool kept; /* atomic: that libcuda will not be unloaded any more */
};

static struct gf_routes *published;

struct driver {
    uintptr_t address; /* it must lie in the object; 0: in any */
    uintptr_t base, start, end;
    const char *path;
};

static bool is_libcuda(const char *path)
{
    const char *slash = strrchr(path, '/');
    static const char name[] = "libcuda.so";
    return strncmp(slash ? slash + 1 : path, name, sizeof(name) - 1) == 0;
}

static int look_for_object(struct dl_phdr_info *info, size_t size, void *closure)
{
    struct driver *driver = closure;
    uintptr_t start = UINTPTR_MAX, end = 0;

    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD)
            continue;
        start = gf_min(start, info->dlpi_addr + segment->p_vaddr);
        end = gf_max(end, info->dlpi_addr + segment->p_vaddr + segment->p_memsz);
    }
    if (driver->address && (driver->address < start || driver->address >= end))
        return 0;
    driver->base = info->dlpi_addr;
    driver->start = start;
    driver->end = end;
    driver->path = info->dlpi_name;
    return 1;
}

static int look_for_driver(struct dl_phdr_info *info, size_t size, void *closure)
{
    return is_libcuda(info->dlpi_name) ? look_for_object(info, size, closure) : 0;
}

/* Keeps the driver loaded for ever, as its addresses are kept. False if it is not that one. */
static bool pin(const struct driver *driver)
{
    const struct link_map *map =
        gf_originals()->dlopen(driver->path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (!map) {
        dlerror(); /* ours, not the program's */
        return false;
    }
    return map->l_addr == driver->base;
}

static void *real_of(const struct gf_routes *routes, const struct route *route)
{
    return *(void *const *)((const char *)&routes->real + route->offset);
}

static bool ends_in(const char *symbol, size_t length, const char *end)
{
    return length > strlen(end) && memcmp(symbol + length - strlen(end), end, strlen(end)) == 0;
}

/*
 * The part of a name that stands for its parameters: cuMemAllocAsync_ptsz is cuMemAllocAsync with
 * another default stream, cuCtxDestroy_v2 is cuCtxDestroy with other effects on other threads.
 */
static size_t stem(const char *symbol)
{
    static const char *const alike[] = {"cuCtxDestroy_v2", "cuDevicePrimaryCtxRelease_v2",
                                        "cuDevicePrimaryCtxReset_v2", "cuMemHostRegister_v2"};
    const size_t length = strlen(symbol);

    if (ends_in(symbol, length, "_ptsz") || ends_in(symbol, length, "_ptds"))
        return length - 5;
    for (size_t i = 0; i < GF_ARRAY_LEN(alike); i++)
        if (strcmp(symbol, alike[i]) == 0)
            return length - 3;
    return length;
}

/*
 * A driver may give several names one address. Twins share the first one's hook; entries with
 * different parameters (one stub for all that is not supported) keep the driver's address.
 */
static void settle_aliases(struct gf_routes *routes, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (real_of(routes, &hooked[j]) != real_of(routes, &hooked[i]))
            continue;
        const size_t length = stem(hooked[i].symbol);
        routes->hook[i] = NULL;
        if (length != stem(hooked[j].symbol) ||
            memcmp(hooked[i].symbol, hooked[j].symbol, length) != 0)
            routes->hook[j] = NULL;
    }
}

/* What a stand-in lacks a program finds in the libcuda behind it. */
static bool find_function(const struct driver *driver, const struct driver *behind,
                          const char *symbol, struct gf_symbol *ret)
{
    return gf_symbol_find_in(driver->base, symbol, ret) ||
           (behind->end && gf_symbol_find_in(behind->base, symbol, ret));
}

static void fill(struct gf_routes *routes, const struct driver *driver, const struct driver *behind)
{
    struct gf_symbol found;

    routes->start = driver->start;
    routes->end = driver->end;
    routes->behind = behind->start;
    routes->behind_end = behind->end;
    for (size_t i = 0; i < GF_ARRAY_LEN(functions); i++)
        if (find_function(driver, behind, functions[i].symbol, &found))
            memcpy((char *)&routes->real + functions[i].offset, &found.address, sizeof(found.address));
    for (size_t i = 0; i < GF_ARRAY_LEN(hooked); i++) {
        if (!real_of(routes, &hooked[i]))
            continue;
        /* Only a stand-in itself comes by an address of the libcuda behind it: it keeps that. */
        if ((uintptr_t)real_of(routes, &hooked[i]) - routes->start < routes->end - routes->start)
            routes->hook[i] = hooked[i].hook;
        settle_aliases(routes, i);
    }
}

/* The table of this driver, published: the one that is there already, or a new one in its place. */
static struct gf_routes *publish(const struct driver *driver, const struct driver *behind)
{
    struct gf_routes *there = __atomic_load_n(&published, __ATOMIC_ACQUIRE);
    if (there && there->start == driver->start && there->end == driver->end &&
        there->behind == behind->start)
        return there;
    struct gf_routes *mine =
        mmap(NULL, sizeof(*mine), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mine == MAP_FAILED)
        return NULL;
    fill(mine, driver, behind);
    if (__atomic_compare_exchange_n(&published, &there, mine, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return mine;
    munmap(mine, sizeof(*mine));
    return there;
}

/* It was there at start, and stays. */
static struct gf_routes *build_on_stand_in(void)
{
    struct driver driver = {.address = (uintptr_t)gf_stand_in()->address}, behind = {0};
    if (!dl_iterate_phdr(look_for_object, &driver))
        return NULL;
    dl_iterate_phdr(look_for_driver, &behind);
    return publish(&driver, &behind);
}

/*
 * keep: the caller may take the loader's lock. While nobody has, each call looks again whether the
 * driver that was found is the one that is there.
 */
static GF_COLD const struct gf_routes *build(const void *address, bool keep)
{
    const int error = errno;
    static const struct driver none;
    struct driver driver = {.address = (uintptr_t)address};
    struct gf_routes *ret = NULL;

    gf_thread.guard++;
    if (gf_stand_in())
        ret = build_on_stand_in();
    else if (dl_iterate_phdr(look_for_driver, &driver) && (!keep || pin(&driver)))
        ret = publish(&driver, &none);
    if (ret && keep)
        __atomic_store_n(&ret->kept, true, __ATOMIC_RELEASE);
    gf_thread.guard--;
    errno = error;
    return ret;
}

static bool is_kept(const struct gf_routes *routes)
{
    return routes && __atomic_load_n(&routes->kept, __ATOMIC_ACQUIRE);
}

void gf_routes_trust(void)
{
    struct gf_routes *routes = __atomic_load_n(&published, __ATOMIC_ACQUIRE);
    if (routes)
        __atomic_store_n(&routes->kept, true, __ATOMIC_RELEASE);
}

void gf_routes_pin(void)
{
    const struct gf_routes *routes = gf_routes();
    if (routes)
        build((const void *)routes->start, true);
}

const struct gf_routes *gf_routes(void)
{
    return __atomic_load_n(&published, __ATOMIC_ACQUIRE);
}

const struct gf_routes *gf_routes_by_address(const void *address)
{
    const struct gf_routes *routes = gf_routes();
    return gf_likely(is_kept(routes)) ? routes : build(address, true);
}

const struct gf_cuda *gf_routes_cuda(void)
{
    const struct gf_routes *routes = gf_routes();
    if (gf_unlikely(!is_kept(routes)))
        routes = build(NULL, false);
    return gf_likely(routes) ? &routes->real : NULL;
}

void *gf_routes_substitute(const struct gf_routes *routes, const void *address)
{
    for (size_t i = 0; routes && i < GF_ARRAY_LEN(hooked); i++)
        if (routes->hook[i] && real_of(routes, &hooked[i]) == address)
            return routes->hook[i];
    return NULL;
}

bool gf_routes_is_hook(const void *address)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(hooked); i++)
        if (hooked[i].hook == address)
            return true;
    return false;
}

bool gf_routes_in_driver(const void *address)
{
    const struct gf_routes *routes = gf_routes();
    return routes &&
           ((uintptr_t)address - routes->start < routes->end - routes->start ||
            (uintptr_t)address - routes->behind < routes->behind_end - routes->behind);
}
