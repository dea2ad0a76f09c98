/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/imports/imports.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/loader.h"
#include "base/log.h"
#include "engine/transfer/imports/import_owner.h"
#include "engine/transfer/imports/import_slot.h"
#include "engine/transfer/imports/parallel_memcpy.h"
#include "engine/transfer/imports/parallel_read.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/prepare.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/tuning.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PYTHON "libpython" /* also for a program that contains CPython */

enum kind { kind_memcpy, kind_read, KINDS };

/*
 * The calls that are shared. `library` is the beginning of the library's file name. In safetensors
 * 0.8.0, load_file(device="cuda") copies each tensor from the mapped file into a pinned buffer, and
 * with backend="pread" reads it there. torch.load of PyTorch 2.11 reads each tensor by readinto of
 * a Python file, for which CPython 3.12 calls read once.
 */
static const struct {
    const char *library, *function;
    gf_import *replacement;
    enum kind kind;
} imports[] = {
    {"_safetensors_rust.", "memcpy", (gf_import *)gf_parallel_memcpy, kind_memcpy},
    {"_safetensors_rust.", "pread64", (gf_import *)gf_parallel_pread, kind_read},
    {PYTHON, "read", (gf_import *)gf_parallel_read, kind_read},
};

static _Atomic bool requested;
static _Atomic uint64_t next_request_ns;
static _Atomic uint64_t replaced[KINDS];

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

static bool is_on(enum kind kind)
{
    const struct gf_options *options = gf_setup.options;

    if (options->mode != gf_mode_on)
        return false;
    return kind == kind_memcpy ? options->parallel_memcpy == gf_parallel_memcpy_on &&
                                     gf_setup.cuda->cuPointerGetAttributes
                               : options->parallel_read == gf_parallel_read_on;
}

static void replace(const struct dl_phdr_info *info, size_t index, struct search *search)
{
    const enum gf_import_state state =
        gf_import_slot_replace(info, imports[index].function, imports[index].replacement);

    search->unresolved |= state == gf_import_unresolved;
    if (state != gf_import_replaced)
        return;
    gf_add_relaxed(&replaced[imports[index].kind], 1);
    search->done++;
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
    const char *slash = strrchr(info->dlpi_name, '/');

    if (slash)
        return slash + 1;
    /* the main program has no name here */
    return !*info->dlpi_name && contains_python(info) ? PYTHON : info->dlpi_name;
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
        if (is_on(imports[i].kind) &&
            strncmp(file, imports[i].library, strlen(imports[i].library)) == 0)
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
    if (bytes < GF_TUNE_IMPORT_LEAST || (!is_on(kind_memcpy) && !is_on(kind_read)))
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

    /* import_slot.c needs MADV_POPULATE_WRITE to find out whether the loader has closed a page */
    if ((!gf_exchange_acq_rel(&requested, false) && now < next_ns) ||
        (!is_on(kind_memcpy) && !is_on(kind_read)) || !gf_populate_is_possible())
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

void gf_imports_count(struct gf_import_count *ret_memcpy, struct gf_import_count *ret_read)
{
    gf_parallel_memcpy_count(ret_memcpy);
    gf_parallel_read_count(ret_read);
    ret_memcpy->libraries = gf_load_relaxed(&replaced[kind_memcpy]);
    ret_read->libraries = gf_load_relaxed(&replaced[kind_read]);
}
