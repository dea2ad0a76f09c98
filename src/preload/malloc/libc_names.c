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

/* Takes no lock: another thread may have held the loader's lock when this process was forked. */
static bool make_plan(struct plan *ret, const struct gf_object *libc)
{
    const uintptr_t page = getauxval(AT_PAGESZ);

    ret->start = UINTPTR_MAX;
    ret->end = 0;
    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++) {
        const ElfW(Sym) *const there = gf_object_function(libc, names[i], 0);
        const void *const here = there ? gf_libc_first(names[i]) : NULL;
        ret->entry[i] = (ElfW(Sym) *)(uintptr_t)there;
        if (!there)
            continue;
        if (!here)
            return false;
        ret->value[i] = (uintptr_t)here - libc->base;
        ret->start = gf_min(ret->start, (uintptr_t)there & -page);
        ret->end = gf_max(ret->end, ((uintptr_t)(there + 1) + page - 1) & -page);
    }
    return ret->end > 0;
}

/*
 * The entries must be in read-only data. Otherwise the mprotect below could remove the execute
 * permission of code while other threads run it.
 */
static bool in_read_only_data(const struct plan *plan, uintptr_t libc)
{
    const ElfW(Ehdr) *const header = (const void *)libc;
    const ElfW(Phdr) *const segments = (const void *)(libc + header->e_phoff);

    for (size_t i = 0; i < header->e_phnum; i++) {
        const uintptr_t start = libc + segments[i].p_vaddr;
        if (segments[i].p_type == PT_LOAD && segments[i].p_flags == PF_R && plan->start >= start &&
            plan->end <= start + segments[i].p_memsz)
            return true;
    }
    return false;
}

static bool lead_here(void)
{
    struct gf_object libc;
    struct plan plan;

    if (!gf_libc_find(&libc) || !make_plan(&plan, &libc) || !in_read_only_data(&plan, libc.base) ||
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
    static __thread bool leading;

    gf_start();
    if (!gf_mode_is_jemalloc())
        return true;
    if (gf_unlikely(leading)) /* a handler of SIGSYS has interrupted this thread's change */
        return false;
    while (gf_load_acquire(&state) == unknown) {
        gf_keep_errno();
        pid_t before = gf_load_relaxed(&begun);
        if (before != getpid() && gf_cas_relaxed(&begun, &before, getpid())) {
            /* A handler may never return here, and the other threads would wait. */
            const uint64_t signals = gf_symbols_block_signals();
            leading = true;
            gf_store_release(&state, lead_here() ? leads : cannot);
            leading = false;
            gf_symbols_unblock_signals(signals);
        } else
            sched_yield(); /* A short wait, because the other thread only makes two system calls. */
    }
    return gf_load_relaxed(&state) == leads;
}
