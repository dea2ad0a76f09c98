/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/memcpy/memcpy_slot.h"

#include "base/atomic.h"
#include "base/loader/libc.h"
#include "base/loader/object.h"
#include "base/loader/symbols.h"
#include "engine/transfer/memory/page.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

static const ElfW(Dyn) * dynamic_of(const struct dl_phdr_info *info)
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

static uintptr_t find_slot(const struct gf_object *object, struct relocations table)
{
    for (size_t i = 0; i < table.count; i++) {
        const ElfW(Rela) *at = &table.first[i];
        const unsigned type = ELF64_R_TYPE(at->r_info);
        const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(at->r_info)];
        if ((type == DATA_RELOCATION || type == CALL_RELOCATION) && symbol->st_shndx == SHN_UNDEF &&
            gf_object_names_equal(object->strings + symbol->st_name, "memcpy"))
            return object->base + at->r_offset;
    }
    return 0;
}

/* Whether the loader made the slot read-only after the object's relocation. */
static bool is_read_only(const struct dl_phdr_info *info, uintptr_t slot)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_GNU_RELRO &&
            slot - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz)
            return true;
    }
    return false;
}

static bool protect_slot(uintptr_t slot, int protection)
{
    const size_t page = gf_page_size();
    return syscall(SYS_mprotect, slot / page * page, page, protection) == 0;
}

static bool leads_to_libc(gf_memcpy_fn *function)
{
    struct gf_symbol holder;
    return gf_symbol_holder((const void *)(uintptr_t)function, &holder) &&
           holder.base == gf_libc_base();
}

bool gf_memcpy_slot_replace(const struct dl_phdr_info *info, gf_memcpy_fn *replacement)
{
    const ElfW(Dyn) *dynamic = dynamic_of(info);
    struct gf_object object;

    if (!dynamic || !gf_object_read(info->dlpi_addr, dynamic, &object))
        return false;
    uintptr_t at = find_slot(&object, data_relocations(info, dynamic));
    if (!at)
        at = find_slot(
            &object, (struct relocations){object.calls, object.calls_size / sizeof(*object.calls)});
    if (!at)
        return false;
    _Atomic(gf_memcpy_fn *) *slot = (_Atomic(gf_memcpy_fn *) *)at;
    if (!leads_to_libc(gf_load_relaxed(slot)))
        return false;
    const bool closed = is_read_only(info, at);
    if (closed && !protect_slot(at, PROT_READ | PROT_WRITE))
        return false;
    gf_store_relaxed(slot, replacement);
    if (closed)
        protect_slot(at, PROT_READ);
    return true;
}
