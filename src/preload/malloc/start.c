/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/malloc/start.h"

#include "config/startup_env.h"
#include "os/memory.h"
#include "os/permit.h"
#include "preload/heap/first_touch.h"
#include "preload/heap/heap.h"
#include "preload/trace/journal.h"
#include "preload/trace/run_root.h"
#include "preload/trace/stall.h"

#include <pthread.h>
#include <sys/resource.h>

/* The hook of pthread_attr_setstacksize adds to the size (preload/hook/on_thread.c). */
static GF_COLD void enlarge(void)
{
    pthread_attr_t attr;
    size_t size;

    if (pthread_getattr_default_np(&attr) != 0)
        return;
    if (pthread_attr_getstacksize(&attr, &size) == 0 && size && size < GF_STACK_LARGE &&
        pthread_attr_setstacksize(&attr, size) == 0)
        pthread_setattr_default_np(&attr);
    pthread_attr_destroy(&attr);
}

/*
 * Adds to the default size of thread stacks if `ulimit -s` made it small. Threads that libc starts
 * for itself, and those without attributes, have the default size.
 */
static void gf_default_stack_enlarge(void)
{
    struct rlimit limit;

    if (syscall(SYS_prlimit64, 0, RLIMIT_STACK, NULL, &limit) == 0 &&
        limit.rlim_cur < GF_STACK_LARGE)
        enlarge();
}

void gf_start_probes(unsigned wanted)
{
    gf_permit_find(wanted);
    gf_safe_read_start();
    gf_presence_allow();
}

void gf_start_watch(const struct gf_options *options)
{
    const struct gf_heap_ops *heap = gf_heap_ops();

    gf_journal_open(options->log, gf_startup_env()->envp, GF_VERSION);
    if (!options->stall_us || (heap->mode != gf_heap_mode_replace && !heap->time_passthrough))
        return;
    gf_stall_watch((uint64_t)options->stall_us * 1000);
    if (heap->time_passthrough)
        heap->time_passthrough();
}

/*
 * libc calls calloc while it holds the lock of its list of exit handlers, which on_exit needs, too.
 * The loader's first calls of calloc are safe: libc has not been initialised, so that no handler
 * exists.
 */
static bool may_lock_exit_handlers(bool inside_calloc)
{
    return !inside_calloc || (program_invocation_name && !*program_invocation_name);
}

static void start(bool inside_calloc)
{
    if (gf_likely(!gf_heap_init()))
        return;
    gf_keep_errno();
    const struct gf_options *options = gf_startup_env_options();
    if (options->mode != gf_mode_off)
        gf_default_stack_enlarge();
    if (gf_unlikely(*options->log)) {
        gf_start_watch(options);
        gf_start_probes(GF_PERMIT_READING);
    }
    if (gf_unlikely(gf_startup_env()->run) && options->mode != gf_mode_off && options->verbose &&
        may_lock_exit_handlers(inside_calloc))
        gf_run_root_open();
}

void gf_start(void)
{
    start(false);
}

void gf_start_in_calloc(void)
{
    start(true);
}
