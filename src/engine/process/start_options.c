/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/duties.h"

#include "base/log.h"
#include "base/symbols.h"
#include "engine/process/process_state.h"
#include "host/machine.h"
#include "os/launch.h"
#include "os/permit.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/prctl.h>

#define RUNTIMES 4

/* An OpenMP runtime. A process may have several, each with its own number of threads. */
struct runtime {
    int (*get_max_threads)(void);
    void (*set_num_threads)(int count);
    const char *object; /* file name */
};

static struct runtime runtimes[RUNTIMES];
static _Atomic unsigned runtime_count; /* nonzero after `runtimes` was written */
static _Atomic bool lowered;

static void disable_huge_pages(void)
{
    if (gf_process.preload->options->huge_pages != gf_huge_pages_off ||
        prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1)
        return;
    if (!gf_permit(gf_permit_huge_pages))
        gf_warn("GPUFEED_HUGE_PAGES=off has no effect: a seccomp filter forbids "
                "prctl(PR_SET_THP_DISABLE)");
    else if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
        gf_warn("GPUFEED_HUGE_PAGES=off has no effect: prctl(PR_SET_THP_DISABLE): %s",
                strerrordesc_np(errno));
}

/* tcmalloc has read the variable when the program started. */
static void warn_of_tcmalloc(void)
{
    if (gf_process.preload->options->tcmalloc == gf_tcmalloc_tune &&
        !gf_launch_variable(environ, GF_LAUNCH_TCMALLOC_CACHES))
        gf_warn(
            "GPUFEED_TCMALLOC=tune has no effect, because tcmalloc reads its settings when the "
            "program starts: start the program by gpufeed run, or set " GF_LAUNCH_TCMALLOC_CACHES);
}

/*
 * Keeps an object loaded, because a thread of the program calls its functions later. LLVM's runtimes
 * are never unloaded, but libgomp may be.
 */
static bool keep_loaded(const struct gf_symbol *symbol)
{
    if (!*symbol->object) /* the program itself */
        return true;
    const struct link_map *map = dlopen(symbol->object, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    return map && map->l_addr == symbol->base;
}

static void find_runtimes(void)
{
    struct gf_symbol set, get;
    const void *self = NULL;
    unsigned count = 0;

    if (gf_process.preload->options->omp != gf_omp_auto ||
        gf_launch_variable(environ, GF_LAUNCH_OMP_THREADS))
        return;
    while (count < RUNTIMES && gf_symbol_find("omp_set_num_threads", self, &set)) {
        self = set.address;
        if (!gf_symbol_find_in(set.base, "omp_get_max_threads", &get) || !keep_loaded(&set))
            continue;
        runtimes[count].set_num_threads = (void (*)(int))set.address;
        runtimes[count].get_max_threads = (int (*)(void))get.address;
        runtimes[count++].object = set.object;
    }
    if (!count)
        gf_warn(
            "GPUFEED_OMP=auto has no effect, because no OpenMP runtime was loaded before cuInit: "
            "start the program by gpufeed run, or set " GF_LAUNCH_OMP_THREADS);
    gf_store_release(&runtime_count, count);
}

void gf_start_options_begin(void)
{
    if (gf_process.preload->options->mode != gf_mode_on)
        return;
    disable_huge_pages();
    warn_of_tcmalloc();
    find_runtimes();
}

static unsigned cores_of(const struct gf_cpus *cpus)
{
    const struct gf_machine *machine = gf_process.machine;
    unsigned count = 0;

    for (size_t i = 0; machine && i < machine->core_count; i++)
        count += gf_set_meet(&machine->cores[i].cpus, cpus);
    return count;
}

/*
 * Whether a number of threads is a runtime's default: the CPUs in the start mask, or the cores, which
 * is PyTorch's default with MKL. Any other number was chosen by the program.
 */
static bool is_default(int count)
{
    const struct gf_cpus *start = &gf_process.facts.start;
    return count > 0 &&
           ((unsigned)count == gf_set_count(start) || (unsigned)count == cores_of(start));
}

/* Returns the process's share of the CPUs. */
static unsigned find_share(void)
{
    const struct gf_facts *facts = &gf_process.facts;
    const struct gf_placement *placement = gf_process_placement();
    const bool is_bound = placement && placement->bound && !placement->submitters;
    const bool is_shared = gf_set_count(&facts->start) >= gf_set_count(&facts->cpuset);

    return gf_facts_thread_count(&facts->start, is_bound ? &placement->cpus : &facts->start,
                                 facts->cpu_quota, is_shared ? facts->rank.local_size : 1);
}

static void lower(const struct runtime *runtime, unsigned share)
{
    const int before = runtime->get_max_threads();

    if (is_default(before) && (unsigned)before > share)
        runtime->set_num_threads((int)share);
    gf_log_explain(gf_log_area_place,
                   "OpenMP of %s: %d threads, now %d (this process's share is %u)", runtime->object,
                   before, runtime->get_max_threads(), share);
}

void gf_start_options_openmp(void)
{
    const unsigned count = gf_load_acquire(&runtime_count);

    if (!count || !gf_process_decision() || gf_load_relaxed(&lowered) ||
        gf_exchange_relaxed(&lowered, true))
        return;
    gf_keep_errno();
    const unsigned share = find_share();
    for (unsigned i = 0; i < count; i++)
        lower(&runtimes[i], share);
}
