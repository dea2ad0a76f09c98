/* SPDX-License-Identifier: Apache-2.0 */
/*
 * If a program opens a library with RTLD_DEEPBIND, the loader searches the library's dependencies
 * first, and finds libc's free. But libc's strdup, asprintf and getline call the exported malloc.
 * So the opened library would pass a block of jemalloc to libc's free, and the program would abort.
 * Likewise, ctypes.CDLL("libc.so.6").malloc_trim(0) in Python would trim libc's heap, which is not
 * in use. The loader's lookup and the lookup by ctypes read libc's symbol table, which is mapped
 * privately. So this file sets the table's entries for these names to the functions that serve
 * malloc.
 */
#include "preload/malloc/libc_names.h"

#include "base/atomic.h"
#include "base/loader.h"
#include "base/symbols.h"
#include "preload/heap/mode.h"
#include "preload/malloc/start.h"

#include <link.h>
#include <sched.h>
#include <sys/auxv.h>

/*
 * The names whose entries are changed: the functions that allocate, free or measure blocks, and
 * malloc_trim. reallocarray is not listed, because libc's reallocarray calls the exported realloc.
 */
static const char *const names[] = {
#define GF_FAMILY(name, type, parameters, arguments) #name,
#define GF_FAMILY_INFO(name, type, parameters, arguments)
#define GF_FAMILY_ALIAS(alias, name, type, parameters, arguments) #alias,
#include "abi/family.def"
};

struct plan {
    ElfW(Sym) * entry[GF_ARRAY_LEN(names)]; /* NULL: this libc lacks the name */
    ElfW(Addr) value[GF_ARRAY_LEN(names)];
    uintptr_t start, end; /* the pages that contain the entries */
};

static bool make_plan(struct plan *ret)
{
    const uintptr_t page = getauxval(AT_PAGESZ);
    const uintptr_t libc = gf_libc_base();
    struct gf_symbol here, there;

    if (!libc)
        return false;
    ret->start = UINTPTR_MAX;
    ret->end = 0;
    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++) {
        ret->entry[i] = NULL;
        if (!gf_symbol_find_in(libc, names[i], &there))
            continue;
        if (!gf_symbol_find(names[i], NULL, &here))
            return false;
        ret->entry[i] = (ElfW(Sym) *)(uintptr_t)there.entry;
        ret->value[i] = (uintptr_t)here.address - libc;
        ret->start = gf_min(ret->start, (uintptr_t)there.entry & -page);
        ret->end = gf_max(ret->end, ((uintptr_t)(ret->entry[i] + 1) + page - 1) & -page);
    }
    return ret->end > 0;
}

/*
 * The entries must be in read-only data. Otherwise the mprotect below could remove the execute
 * permission of code while other threads run it.
 */
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

static bool lead_here(void)
{
    struct plan plan;

    if (!make_plan(&plan) || !dl_iterate_phdr(in_read_only_data, &plan) ||
        syscall(SYS_mprotect, plan.start, plan.end - plan.start, PROT_READ | PROT_WRITE) != 0)
        return false;
    /*
     * The stores are atomic, so that a lookup at the same time finds either the old value or the
     * new value.
     */
    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++)
        if (plan.entry[i])
            __atomic_store_n(&plan.entry[i]->st_value, plan.value[i], __ATOMIC_RELAXED);
    syscall(SYS_mprotect, plan.start, plan.end - plan.start, PROT_READ);
    return true;
}

bool gf_libc_names_contain(const char *name)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++)
        if (gf_object_names_equal(name, names[i]))
            return true;
    return false;
}

bool gf_libc_names_prepare(void)
{
    static _Atomic pid_t begun; /* the process: a fork leaves the thread that began behind */
    static _Atomic enum { unknown, leads, cannot } state;

    gf_start();
    if (!gf_mode_is_jemalloc())
        return true;
    while (gf_load_acquire(&state) == unknown) {
        gf_keep_errno();
        pid_t before = gf_load_relaxed(&begun);
        if (before != getpid() && gf_cas_relaxed(&begun, &before, getpid()))
            gf_store_release(&state, lead_here() ? leads : cannot);
        else
            sched_yield(); /* A short wait, because the other thread only makes two system calls. */
    }
    return gf_load_relaxed(&state) == leads;
}
