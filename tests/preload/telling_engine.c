/* SPDX-License-Identifier: Apache-2.0 */
/* An engine that only prints one line on standard error for each call of the preload library. */
#include "tell.h"

#include "abi_hash.h"
#include "abi/engine_api.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef ABI
#define ABI GF_ENGINE_ABI
#endif

static const struct gf_preload *preload;

static void device_seen(CUdevice device, enum gf_sighting how, uint64_t bytes)
{
    static const char *const word[] = {"retained", "current", "memory"};
    CUcontext context = NULL;
    /*
     * The engine calls the same exported names as a program. The preload library must pass these
     * calls through.
     */
    extern CUresult cuInit(unsigned int) __attribute__((weak));
    if (cuInit)
        cuInit(0);
    preload->cuda->cuCtxGetCurrent(&context);
    tell("[seen %s device=%d bytes=%lu]\n", word[how], device, (unsigned long)bytes);
}

static void thread_started(void)
{
    if (strcmp(preload->options->machine, "slow") == 0)
        usleep(100000);
    tell("[started class=%d]\n", preload->thread_class(gettid()));
}

static void forked(void)
{
    tell("[forked]\n");
}

static bool program_begin(void)
{
    if (strcmp(preload->options->machine, "program") != 0)
        return false;
    tell("[program begins]\n");
    return true;
}

static void program_end(void)
{
    tell("[program ends]\n");
}

static int gpu_node(void)
{
    return 7;
}

static void *by_a_library_of_ours(void *arg)
{
    tell("[library class=%d]\n", preload->thread_class(gettid()));
    return arg;
}

static void tell_ours(void)
{
    pthread_t thread;
    pthread_attr_t attr;
    size_t stack = 0;
    if (pthread_getattr_np(pthread_self(), &attr) == 0)
        pthread_attr_getstacksize(&attr, &stack);
    tell("[stack enough=%d]\n", stack >= 1000000);
    cpu_set_t mask;
    sigset_t blocked;
    sched_getaffinity(0, sizeof(mask), &mask);
    sched_setaffinity(0, sizeof(mask), &mask);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    tell("[ours class=%d blocked=%d]\n", preload->thread_class(gettid()),
         sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGINT));
    if (pthread_create(&thread, NULL, by_a_library_of_ours, NULL) == 0)
        pthread_join(thread, NULL);
}

static void joined(void)
{
    tell("[joined caller=%d]\n", gettid() == preload->caller);
}

static void watch(void)
{
}

static void tell_count(const struct gf_hook_counts *tally)
{
    if (tally->calls)
        tell("[count %s %lu]\n", tally->name, (unsigned long)tally->calls);
}

static __attribute__((destructor)) void at_exit(void)
{
    struct gf_hook_counts counts;

    if (!preload || preload->startup->pid != getpid())
        return;
    for (size_t i = 0; preload->hook_counts(i, &counts); i++)
        tell_count(&counts);
}

static const struct gf_engine engine = {
    .abi = ABI,
    .size = sizeof(engine),
    .device_seen = device_seen,
    .joined = joined,
    .watch = watch,
    .thread_started = thread_started,
    .forked = forked,
    .program_begin = program_begin,
    .program_end = program_end,
    .gpu_node = gpu_node,
};

GF_EXPORT const struct gf_engine *gf_engine_start(const struct gf_preload *given)
{
    preload = given;
    tell("[engine abi=%d size=%d version=%s]\n", preload->abi == GF_ENGINE_ABI,
         preload->size == sizeof(*preload), preload->version);
    if (strcmp(preload->options->machine, "thread") == 0)
        tell_ours();
    if (strcmp(preload->options->machine, "one arena") == 0)
        preload->heap->set_cpus(1);
    return &engine;
}
