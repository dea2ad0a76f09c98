/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/imports/import_slot.h"

#include "base/atomic.h"
#include "base/loader.h"
#include "base/symbols.h"
#include "engine/transfer/pages.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#if defined(__x86_64__)
#define DATA_RELOCATION R_X86_64_GLOB_DAT
#define CALL_RELOCATION R_X86_64_JUMP_SLOT
#elif defined(__aarch64__)
#define DATA_RELOCATION R_AARCH64_GLOB_DAT
#define CALL_RELOCATION R_AARCH64_JUMP_SLOT
#endif

/* A table of relocations of the object. */
struct relocations {
    const ElfW(Rela) * first;
    size_t count;
};

const ElfW(Dyn) * gf_import_dynamic(const struct dl_phdr_info *info)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return NULL;
}

/*
 * Finds the object's table of data relocations; gf_object_read finds the table of call relocations.
 */
static struct relocations data_relocations(const struct dl_phdr_info *info,
                                           const ElfW(Dyn) * dynamic)
{
    uintptr_t start = 0;
    size_t bytes = 0;

    for (const ElfW(Dyn) *at = dynamic; at->d_tag != DT_NULL; at++) {
        if (at->d_tag == DT_RELA)
            start = at->d_un.d_ptr;
        else if (at->d_tag == DT_RELASZ)
            bytes = at->d_un.d_val;
    }
    /* some loaders do not add the load address to this entry */
    if (start && start < info->dlpi_addr)
        start += info->dlpi_addr;
    return (struct relocations){(const void *)start, start ? bytes / sizeof(ElfW(Rela)) : 0};
}

static uintptr_t find_slot(const struct gf_object *object, struct relocations table,
                           const char *function)
{
    for (size_t i = 0; i < table.count; i++) {
        const ElfW(Rela) *at = &table.first[i];
        const unsigned type = ELF64_R_TYPE(at->r_info);
        const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(at->r_info)];
        if ((type == DATA_RELOCATION || type == CALL_RELOCATION) && symbol->st_shndx == SHN_UNDEF &&
            gf_object_names_equal(object->strings + symbol->st_name, function))
            return object->base + at->r_offset;
    }
    return 0;
}

static uintptr_t page_of(uintptr_t at)
{
    return at & ~(uintptr_t)(gf_page_size() - 1);
}

/*
 * Whether the loader makes the slot read-only after the object's relocation. The loader leaves the
 * last page writable if only a part of it is to be read-only.
 */
static bool is_read_only(const struct dl_phdr_info *info, uintptr_t slot)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_GNU_RELRO && slot >= page_of(start) &&
            slot < page_of(start + segment->p_memsz))
            return true;
    }
    return false;
}

static bool protect_slot(uintptr_t slot, int protection)
{
    return syscall(SYS_mprotect, page_of(slot), gf_page_size(), protection) == 0;
}

/*
 * Whether the slot's page is read-only. The kernel returns EINVAL for pages that may not be written
 * (faultin_page_range in mm/gup.c, Linux 5.14), and for advice that it does not know.
 */
static bool is_closed(uintptr_t slot)
{
    return syscall(SYS_madvise, page_of(slot), gf_page_size(), MADV_POPULATE_WRITE) != 0 &&
           errno == EINVAL;
}

/* Where the function of a slot is. */
enum holder {
    in_libc,
    in_object,  /* the object itself: the loader has not resolved the slot yet */
    in_nothing, /* the loader has not relocated the object yet */
    elsewhere,
};

static enum holder holder_of(gf_import *function, uintptr_t object)
{
    struct gf_symbol symbol;

    if (!gf_symbol_holder((const void *)(uintptr_t)function, &symbol))
        return in_nothing;
    return symbol.base == gf_libc_base() ? in_libc : symbol.base == object ? in_object : elsewhere;
}

/*
 * While a page that will be read-only is still writable, the loader is relocating the object on
 * another thread, and would fail on a page that is closed too early.
 */
static enum gf_import_state store(const struct dl_phdr_info *info, uintptr_t at,
                                  gf_import *replacement)
{
    const bool closed = is_read_only(info, at);

    if (closed && !is_closed(at))
        return gf_import_unresolved;
    if (!closed && is_closed(at)) /* by the program */
        return gf_import_kept;
    if (closed && !protect_slot(at, PROT_READ | PROT_WRITE))
        return gf_import_kept;
    gf_store_relaxed((_Atomic(gf_import *) *)at, replacement);
    if (closed)
        protect_slot(at, PROT_READ);
    return gf_import_replaced;
}

enum gf_import_state gf_import_slot_replace(const struct dl_phdr_info *info, const char *function,
                                            gf_import *replacement)
{
    const ElfW(Dyn) *dynamic = gf_import_dynamic(info);
    struct gf_object object;

    if (!dynamic || !gf_object_read(info->dlpi_addr, dynamic, &object))
        return gf_import_kept;
    /* the smaller table first: the other one has thousands of entries in a program that contains CPython */
    uintptr_t at = find_slot(
        &object, (struct relocations){object.calls, object.calls_size / sizeof(*object.calls)},
        function);
    if (!at)
        at = find_slot(&object, data_relocations(info, dynamic), function);
    if (!at)
        return gf_import_kept;
    const enum holder holder =
        holder_of(gf_load_relaxed((_Atomic(gf_import *) *)at), info->dlpi_addr);
    if (holder == in_object || holder == in_nothing)
        return gf_import_unresolved;
    return holder == in_libc ? store(info, at, replacement) : gf_import_kept;
}
