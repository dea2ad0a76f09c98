/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/files/imports.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/loader.h"
#include "base/log.h"
#include "base/path.h"
#include "base/symbols.h"
#include "engine/transfer/files/pin_batch.h"
#include "engine/transfer/files/replaced_calls.h"
#include "engine/transfer/files/shared_read.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/prepare.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/stats.h"
#include "engine/transfer/tuning.h"

#include <link.h>
#include <pthread.h>
#include <time.h>

/*
 * A slot is the pointer through which a loaded library calls a function of another library: an
 * entry of its global offset table (relocation GLOB_DAT or JUMP_SLOT).
 */

typedef void gf_import(void); /* a function of any type */

enum gf_import_state {
    gf_import_replaced,
    /*
     * The object has no such slot, or its slot does not lead to the function's library: another
     * library or the program interposes the function, or the slot was replaced before.
     */
    gf_import_kept,
    /*
     * The loader resolves the slot when the object first calls the function, or is relocating the
     * object now.
     */
    gf_import_unresolved,
};

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

/* Returns the object's dynamic section; NULL: it has none. */
static const ElfW(Dyn) * gf_import_dynamic(const struct dl_phdr_info *info)
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
    in_library, /* the library that a slot of this kind leads to */
    in_nothing, /* the loader has not relocated the object, or not resolved the slot yet */
    elsewhere,
};

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

#define PYTHON "libpython" /* also for a program that contains CPython */
#define TORCH "libtorch_cpu."

/*
 * The calls that are shared. `library` is the beginning of the library's file name. In safetensors
 * 0.8.0, load_file(device="cuda") copies each tensor from the mapped file into a pinned buffer, and
 * with backend="pread" reads it there. torch.load of PyTorch 2.11 reads each tensor by readinto of
 * a Python file, for which CPython 3.12 calls read once.
 */
static const struct import {
    const char *library, *function;
    gf_import *replacement;
    enum gf_import_kind kind;
    void *original; /* where the slot's function is stored first; NULL: the function is libc's */
} imports[] = {
    {"_safetensors_rust.", "memcpy", (gf_import *)gf_parallel_memcpy, gf_import_memcpy, NULL},
    {"_safetensors_rust.", "pread64", (gf_import *)gf_parallel_pread, gf_import_read, NULL},
    {PYTHON, "read", (gf_import *)gf_parallel_read, gf_import_read, NULL},
    {TORCH, "GOMP_parallel", (gf_import *)gf_pin_batch_parallel, gf_import_pin,
     &gf_openmp.parallel},
    {TORCH, "omp_get_max_threads", (gf_import *)gf_pin_batch_max_threads, gf_import_pin,
     &gf_openmp.max_threads},
    {TORCH, "omp_get_num_threads", (gf_import *)gf_pin_batch_num_threads, gf_import_pin,
     &gf_openmp.num_threads},
    {TORCH, "omp_get_thread_num", (gf_import *)gf_pin_batch_thread_num, gf_import_pin,
     &gf_openmp.thread_num},
    {TORCH, "omp_in_parallel", (gf_import *)gf_pin_batch_in_parallel, gf_import_pin,
     &gf_openmp.in_parallel},
};
#define OPENMP_POINTERS 5

/*
 * Whether a slot leads to the library that it names. An OpenMP runtime is that of GCC, Intel or
 * LLVM; GOMP_parallel of all three is alike.
 */
static enum holder holder_of(const struct import *import, gf_import *function, uintptr_t object)
{
    struct gf_symbol symbol;

    /* before the loader resolves it, the slot leads to the object itself */
    if (!gf_symbol_holder((const void *)(uintptr_t)function, &symbol) || symbol.base == object)
        return in_nothing;
    if (!import->original)
        return symbol.base == gf_libc_base() ? in_library : elsewhere;
    const char *file = gf_path_file_name(symbol.object);
    return gf_begins(file, "libgomp") || gf_begins(file, "libiomp") || gf_begins(file, "libomp")
               ? in_library
               : elsewhere;
}

/*
 * Stores the function that a replacement calls for what it does not share. False: it is another one,
 * or such pointers of another object were replaced. All of them must be of one object, because it would
 * copy wrongly with only some of them.
 */
static bool keep_original(const struct import *import, gf_import *function, uintptr_t object)
{
    static uintptr_t first; /* used on the thread `gpufeed` only */
    gf_import *stored = NULL;

    if (!import->original)
        return true;
    first = first ? first : object;
    return object == first &&
           (gf_cas_acq_rel((_Atomic(gf_import *) *)import->original, &stored, function) ||
            stored == function);
}

/*
 * Replaces the object's slot of a function if it leads to the right library. Called inside
 * dl_iterate_phdr, so that the object stays loaded.
 */
static enum gf_import_state gf_import_slot_replace(const struct dl_phdr_info *info,
                                                   const struct import *import)
{
    const ElfW(Dyn) *dynamic = gf_import_dynamic(info);
    struct gf_object object;

    if (!dynamic || !gf_object_read(info->dlpi_addr, dynamic, &object))
        return gf_import_kept;
    /* the smaller table first: the other one has thousands of entries in a program that contains CPython */
    const struct relocations calls = {object.calls, object.calls_size / sizeof(*object.calls)},
                             data = data_relocations(info, dynamic);
    const uintptr_t called = find_slot(&object, calls, import->function);
    const uintptr_t at = called ? called : find_slot(&object, data, import->function);
    if (!at)
        return gf_import_kept;
    gf_import *const function = gf_load_relaxed((_Atomic(gf_import *) *)at);
    const enum holder holder = holder_of(import, function, info->dlpi_addr);
    if (holder == in_nothing)
        return gf_import_unresolved;
    /* gold and lld make a second slot for a function whose address is taken */
    return holder == in_library &&
                   !(import->original && called && find_slot(&object, data, import->function)) &&
                   keep_original(import, function, info->dlpi_addr)
               ? store(info, at, import->replacement)
               : gf_import_kept;
}

static _Atomic bool requested;
static _Atomic uint64_t next_request_ns;

/*
 * A child that is forked during a search would inherit a lock of the loader that is never released.
 * So a fork waits for the end of the search, and no search begins while a fork is under way.
 */
static _Atomic unsigned forks;
static _Atomic bool searching;

struct search {
    unsigned long long changes; /* how often the loader's list of objects has changed */
    bool all;                   /* visit the objects although the list has not changed */
    bool first;
    bool unresolved; /* a listed slot will be resolved later */
    unsigned done;   /* number of pointers replaced by this search */
};

static bool is_on(enum gf_import_kind kind)
{
    const struct gf_options *options = gf_setup.options;

    return options->mode == gf_mode_on &&
           (kind == gf_import_memcpy ? options->parallel_memcpy == gf_parallel_memcpy_on
            : kind == gf_import_read ? options->parallel_read == gf_parallel_read_on
                                     : options->parallel_pin == gf_parallel_pin_on);
}

static bool is_any_on(void)
{
    return is_on(gf_import_memcpy) || is_on(gf_import_read) || is_on(gf_import_pin);
}

static void replace(const struct dl_phdr_info *info, size_t index, struct search *search)
{
    static unsigned openmp_pointers; /* used on the thread `gpufeed` only */
    const enum gf_import_state state = gf_import_slot_replace(info, &imports[index]);

    search->unresolved |= state == gf_import_unresolved;
    if (state != gf_import_replaced)
        return;
    gf_copy_stats_add(imports[imports[index].kind].libraries, 1);
    search->done++;
    if (imports[index].kind == gf_import_pin && ++openmp_pointers == OPENMP_POINTERS)
        gf_pin_batch_start();
}

static bool contains_python(const struct dl_phdr_info *info)
{
    struct gf_object object;

    return gf_object_read(info->dlpi_addr, gf_import_dynamic(info), &object) &&
           gf_object_find(&object, "_PyRuntime", 0);
}

/* Returns the object's file name, or PYTHON for a program that contains CPython. */
static const char *file_name(const struct dl_phdr_info *info)
{
    /* the main program has no name here */
    return !*info->dlpi_name && contains_python(info) ? PYTHON : gf_path_file_name(info->dlpi_name);
}

static int visit_object(struct dl_phdr_info *info, size_t size, void *closure)
{
    struct search *search = closure;

    (void)size;
    if (search->first) {
        const unsigned long long changes = info->dlpi_adds + info->dlpi_subs;
        search->first = false;
        if (changes == search->changes && !search->all)
            return 1;
        search->changes = changes;
        search->unresolved = false;
    }
    const char *file = file_name(info);
    for (size_t i = 0; i < GF_ARRAY_LEN(imports); i++)
        if (is_on(imports[i].kind) && gf_begins(file, imports[i].library))
            replace(info, i, search);
    return 0;
}

/*
 * The limit is for a fork by a thread for which the loader waits. A real-time thread that only
 * yielded would keep the searching thread off its CPU. A program's fork must not become a
 * cancellation point, as libc's clock_nanosleep is. So the system call is made directly.
 */
static void fork_begins(void)
{
    static const struct timespec moment = {.tv_nsec = 100000};
    const uint64_t until = gf_now_ns() + GF_TUNE_IMPORT_FORK_NS;

    gf_add_seq_cst(&forks, 1);
    while (gf_load_seq_cst(&searching) && gf_now_ns() < until)
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &moment, NULL);
}

static void fork_ends(void)
{
    gf_sub_seq_cst(&forks, 1);
}

static void fork_ends_in_child(void)
{
    gf_store_relaxed(&forks, 0);
    gf_store_relaxed(&searching, false);
    gf_import_owner_forked();
}

/* Returns whether a search may begin, and makes forks wait for its end. */
static bool begin_search(void)
{
    static bool watches; /* used on the thread `gpufeed` only */

    watches = watches || pthread_atfork(fork_begins, fork_ends, fork_ends_in_child) == 0;
    gf_store_seq_cst(&searching, true);
    if (watches && !gf_load_seq_cst(&forks))
        return true;
    gf_store_seq_cst(&searching, false);
    return false;
}

void gf_imports_request(size_t bytes)
{
    if (bytes < GF_TUNE_IMPORT_LEAST || !is_any_on())
        return;
    const uint64_t now = gf_now_ns();
    if (now < gf_load_relaxed(&next_request_ns))
        return;
    gf_store_relaxed(&next_request_ns, now + GF_TUNE_IMPORT_REQUEST_NS);
    gf_store_release(&requested, true);
    gf_prepare_request(gf_when_now);
}

void gf_imports_prepare(void)
{
    static struct search search; /* used on the thread `gpufeed` only */
    static uint64_t next_ns;
    const uint64_t now = gf_now_ns();

    /* imports.c needs MADV_POPULATE_WRITE to find out whether the loader has closed a page */
    if ((!gf_exchange_acq_rel(&requested, false) && now < next_ns) || !is_any_on() ||
        !gf_populate_is_possible())
        return;
    if (!begin_search()) {
        gf_store_release(&requested, true);
        return;
    }
    next_ns = now + GF_TUNE_IMPORT_LOOK_NS;
    gf_import_owner_set();
    search.first = true;
    search.all = search.unresolved;
    search.done = 0;
    dl_iterate_phdr(visit_object, &search);
    gf_store_seq_cst(&searching, false);
    if (search.done)
        gf_debug("several threads share large calls through %u pointers of libraries", search.done);
}
