/* SPDX-License-Identifier: Apache-2.0 */
/* An engine that only tells: one line on standard error for each thing the door reports to it. */
#include "hook/engine_api.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef ABI
#define ABI GF_ENGINE_ABI
#endif

static const struct gf_door *door;

static void tell(const char *format, ...)
{
    char line[256];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    write(2, line, length);
}

static void device_seen(CUdevice device, enum gf_sighting how, uint64_t bytes)
{
    static const char *const word[] = {"retained", "current", "memory"};
    CUcontext context = NULL;
    /* By way of the program's names: the door must let the engine's own calls pass. */
    extern CUresult cuInit(unsigned int) __attribute__((weak));
    if (cuInit)
        cuInit(0);
    door->cuda->cuCtxGetCurrent(&context);
    tell("[seen %s device=%d bytes=%lu]\n", word[how], device, (unsigned long)bytes);
}

static void thread_born(void)
{
    if (strcmp(door->options->machine, "slow") == 0)
        usleep(100000);
    tell("[born class=%d]\n", door->thread_class(gettid()));
}

static void forked(void)
{
    tell("[forked]\n");
}

static int gpu_node(void)
{
    return 7;
}

static void *by_a_library_of_ours(void *arg)
{
    tell("[library class=%d]\n", door->thread_class(gettid()));
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
    tell("[ours class=%d blocked=%d]\n", door->thread_class(gettid()),
         sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGINT));
    if (pthread_create(&thread, NULL, by_a_library_of_ours, NULL) == 0)
        pthread_join(thread, NULL);
}

static void joined(void)
{
    tell("[joined caller=%d]\n", gettid() == door->caller);
}

static void watch(void)
{
}

static bool see_count(void *closure, const struct gf_tally *tally)
{
    if (tally->calls)
        tell("[count %s %lu]\n", tally->name, (unsigned long)tally->calls);
    return true;
}

static __attribute__((destructor)) void at_exit(void)
{
    if (door && door->birth->pid == getpid())
        door->each_hook(see_count, NULL);
}

static const struct gf_engine engine = {
    .abi = ABI,
    .size = sizeof(engine),
    .device_seen = device_seen,
    .joined = joined,
    .watch = watch,
    .thread_born = thread_born,
    .forked = forked,
    .gpu_node = gpu_node,
};

GF_EXPORT const struct gf_engine *gf_engine_start(const struct gf_door *given)
{
    door = given;
    tell("[engine abi=%d size=%d version=%s]\n", door->abi == GF_ENGINE_ABI, door->size == sizeof(*door),
         door->version);
    if (strcmp(door->options->machine, "thread") == 0)
        tell_ours();
    if (strcmp(door->options->machine, "one arena") == 0)
        door->heap->set_cpus(1);
    return &engine;
}
