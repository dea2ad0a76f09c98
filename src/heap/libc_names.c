/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that is opened with RTLD_DEEPBIND looks into its own dependencies first and finds
 * libc's free there, while libc's strdup, asprintf and getline call our malloc: two heaps meet and
 * the program aborts. Python's ctypes.CDLL("libc.so.6").malloc_trim(0) trims a heap that nobody
 * uses. Both go by libc's symbol table, of which this process has a private copy: a few values in
 * it are set to the functions that serve.
 */
#include "heap/libc_names.h"

#include "base/symbols.h"

#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Those that allocate, free, or look at a block, and the trim; reallocarray calls realloc. */
static const char *const names[] = {
    "malloc", "calloc",        "realloc", "free",    "posix_memalign",     "aligned_alloc",
    "memalign", "valloc",      "pvalloc", "malloc_usable_size", "malloc_trim",
};

struct plan {
    ElfW(Sym) *entry[GF_ARRAY_LEN(names)];
    ElfW(Addr) value[GF_ARRAY_LEN(names)];
    uintptr_t start, end; /* of the entries, in whole pages */
};

static bool make_plan(struct plan *ret)
{
    const uintptr_t page = getauxval(AT_PAGESZ);
    struct gf_symbol libc, here, there;

    if (!gf_symbol_find("__libc_start_main", NULL, &libc))
        return false;
    ret->start = UINTPTR_MAX;
    ret->end = 0;
    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++) {
        if (!gf_symbol_find_in(libc.base, names[i], &there) ||
            !gf_symbol_find(names[i], NULL, &here))
            return false;
        ret->entry[i] = (ElfW(Sym) *)(uintptr_t)there.entry;
        ret->value[i] = (uintptr_t)here.address - libc.base;
        ret->start = gf_min(ret->start, (uintptr_t)there.entry & -page);
        ret->end = gf_max(ret->end, ((uintptr_t)(ret->entry[i] + 1) + page - 1) & -page);
    }
    return true;
}

/* Read-only data, that is: taking execution away from code, or making it writable, is out of the question. */
static int in_read_only_data(struct dl_phdr_info *info, size_t size, void *closure)
{
    const struct plan *plan = closure;

    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && segment->p_flags == PF_R && plan->start >= start &&
            plan->end <= start + segment->p_memsz)
            return 1;
    }
    return 0;
}

bool gf_libc_names_lead_here(void)
{
    struct plan plan;

    if (!make_plan(&plan) || !dl_iterate_phdr(in_read_only_data, &plan) ||
        syscall(SYS_mprotect, plan.start, plan.end - plan.start, PROT_READ | PROT_WRITE) != 0)
        return false;
    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++)
        __atomic_store_n(&plan.entry[i]->st_value, plan.value[i], __ATOMIC_RELAXED);
    syscall(SYS_mprotect, plan.start, plan.end - plan.start, PROT_READ);
    return true;
}
