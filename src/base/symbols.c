/* SPDX-License-Identifier: Apache-2.0 */
#include "base/symbols.h"

#include "base/loader.h"

#include <elf.h>
#include <link.h>
#include <signal.h>

struct query {
    const char *name;
    /* If not NULL, skip all objects up to the one that contains this address. */
    const void *self;
    bool data;        /* find a variable instead of a function */
    unsigned version; /* of a function; 0: the default version */
    /* True: search only the object at `base`. The base of a program that is not a PIE is 0. */
    bool within;
    uintptr_t base;
    struct gf_symbol *ret;
};

static bool read_object(const struct dl_phdr_info *info, struct gf_object *ret)
{
    const ElfW(Dyn) *dynamic = NULL;

    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return gf_object_read(info->dlpi_addr, dynamic, ret);
}

static bool holds(const struct dl_phdr_info *info, const void *address)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (uintptr_t)address - start < segment->p_memsz)
            return true;
    }
    return false;
}

static int look(struct dl_phdr_info *info, size_t size, void *closure)
{
    struct query *query = closure;
    struct gf_object object;

    (void)size;
    if (query->self) {
        if (holds(info, query->self))
            query->self = NULL;
        return 0;
    }
    if ((query->within && info->dlpi_addr != query->base) || !read_object(info, &object))
        return 0;
    const ElfW(Sym) *symbol = query->data
                                  ? gf_object_find(&object, query->name, 0)
                                  : gf_object_function(&object, query->name, query->version);
    if (!symbol)
        return 0;
    query->ret->address = (void *)(object.base + symbol->st_value);
    query->ret->object = info->dlpi_name;
    query->ret->base = object.base;
    query->ret->entry = symbol;
    return 1;
}

bool gf_symbol_find(const char *name, const void *self, struct gf_symbol *ret)
{
    struct query query = {.name = name, .self = self, .ret = ret};
    return dl_iterate_phdr(look, &query) != 0;
}

bool gf_symbol_find_allocator(const char *name, const void *self, struct gf_symbol *ret)
{
    struct query query = {.name = name, .self = self, .version = GF_ANY_VERSION, .ret = ret};
    return dl_iterate_phdr(look, &query) != 0;
}

bool gf_symbol_find_in(uintptr_t base, const char *name, struct gf_symbol *ret)
{
    struct query query = {.name = name, .within = true, .base = base, .ret = ret};
    return dl_iterate_phdr(look, &query) != 0;
}

bool gf_symbol_find_data(uintptr_t base, const char *name, struct gf_symbol *ret)
{
    struct query query = {.name = name, .data = true, .within = true, .base = base, .ret = ret};
    return dl_iterate_phdr(look, &query) != 0;
}

#define BIT(signal) (UINT64_C(1) << ((signal)-1)) /* in the kernel's signal set */

uint64_t gf_symbols_block_signals(void)
{
    const uint64_t asynchronous = ~(BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGILL) | BIT(SIGFPE) |
                                    BIT(SIGTRAP) | BIT(SIGSYS) | BIT(SIGABRT));
    uint64_t before = 0;

    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &asynchronous, &before, sizeof(before));
    return before;
}

void gf_symbols_unblock_signals(uint64_t before)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
}

static int look_for_holder(struct dl_phdr_info *info, size_t size, void *closure)
{
    struct gf_symbol *ret = closure;

    (void)size;
    if (!holds(info, ret->address))
        return 0;
    ret->object = info->dlpi_name;
    ret->base = info->dlpi_addr;
    ret->entry = NULL;
    return 1;
}

bool gf_symbol_holder(const void *address, struct gf_symbol *ret)
{
    ret->address = (void *)(uintptr_t)address;
    return dl_iterate_phdr(look_for_holder, ret) != 0;
}

bool gf_own_image_is(uintptr_t base)
{
    struct gf_symbol found;

    return gf_symbol_find_in(base, "gpufeed_version", &found) &&
           gf_symbol_find_in(base, "cuGetProcAddress", &found);
}

bool gf_own_image_behind(const void *self, struct gf_symbol *ret)
{
    for (const void *from = self; gf_symbol_find("gpufeed_version", from, ret); from = ret->address)
        if (gf_own_image_is(ret->base))
            return true;
    return false;
}

bool gf_own_image_before(const void *self)
{
    const int known = gf_libc_defined_before("gpufeed_version", "cuGetProcAddress");
    struct gf_symbol first, own;

    return known >= 0 ? known
                      : gf_symbol_holder(self, &own) && gf_own_image_behind(NULL, &first) &&
                            first.base != own.base;
}
