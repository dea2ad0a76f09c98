/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct driver cu;

void kit_fail(const char *what, long got)
{
    printf("wrong: %s (%ld)\n", what, got);
    fflush(stdout);
    _exit(3);
}

void kit_must(CUresult result, const char *what)
{
    if (result)
        kit_fail(what, (long)result);
}

void kit_alarm(unsigned seconds)
{
    const char *longer = getenv("KIT_ALARM"); /* allows for slow machines and debuggers */
    alarm(longer ? (unsigned)strtoul(longer, NULL, 10) : seconds);
}

unsigned kit_rounds(unsigned most)
{
    return getenv("LD_PRELOAD") ? most : most / 10;
}

CUcontext kit_start(void)
{
    CUcontext context;
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(77);
    }
#define USE(name) cu.name = (__typeof__(name) *)dlsym(handle, #name);
#include "functions.def"
#undef USE
    if (cu.cuInit(0))
        exit(77);
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cu.cuCtxSetCurrent(context));
    kit_alarm(45);
    return context;
}

static pid_t catcher;
static const char *(*place_of)(uintptr_t at);

static void on_signal(int number, siginfo_t *info, void *context)
{
    char line[128];
    (void)context;
    const int length =
        snprintf(line, sizeof line, "signal %d code %d%s on %s\n", number, info->si_code,
                 place_of ? place_of((uintptr_t)info->si_addr) : "",
                 syscall(SYS_gettid) == catcher ? "the caller's thread" : "a foreign thread");
    _exit(write(1, line, (size_t)length) < 0 ? 1 : 50 + number);
}

void kit_catch_signals(const char *(*where)(uintptr_t at))
{
    const struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    catcher = (pid_t)syscall(SYS_gettid);
    place_of = where;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

CUdeviceptr kit_device(size_t size)
{
    CUdeviceptr at;
    MUST(cu.cuMemAlloc_v2(&at, size));
    return at;
}

CUstream kit_stream(void)
{
    CUstream stream;
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

unsigned char *kit_pageable(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        kit_fail("mmap", (long)size);
    return at;
}

unsigned char *kit_huge(size_t size)
{
    unsigned char *const at = kit_pageable(size);
    madvise(at, size, MADV_HUGEPAGE);
    return at;
}

void *kit_pinned(size_t size)
{
    void *at;
    MUST(cu.cuMemHostAlloc(&at, size, 0));
    return at;
}

static uint64_t word(unsigned seed, size_t i)
{
    return (i + seed) * 0x9e3779b97f4a7c15u + seed;
}

void kit_fill(void *at, size_t size, unsigned seed)
{
    uint64_t *to = at;
    for (size_t i = 0; i < size / sizeof *to; i++)
        to[i] = word(seed, i);
}

bool kit_is(const void *at, size_t size, unsigned seed)
{
    const uint64_t *from = at;
    for (size_t i = 0; i < size / sizeof *from; i++)
        if (from[i] != word(seed, i))
            return false;
    return true;
}

struct errand {
    CUcontext context;
    void (*run)(void *);
    void *data;
};

static pthread_t threads[64];
static unsigned count;

static void *go(void *closure)
{
    struct errand errand = *(struct errand *)closure;
    free(closure);
    MUST(cu.cuCtxSetCurrent(errand.context));
    errand.run(errand.data);
    return NULL;
}

void kit_thread(CUcontext context, void (*run)(void *), void *data)
{
    struct errand *errand = malloc(sizeof *errand);
    *errand = (struct errand){context, run, data};
    if (pthread_create(&threads[count++], NULL, go, errand))
        kit_fail("pthread_create", 0);
}

void kit_join(void)
{
    while (count)
        pthread_join(threads[--count], NULL);
}

void kit_sleep_us(unsigned microseconds)
{
    struct timespec wait = {microseconds / 1000000, microseconds % 1000000 * 1000L};
    nanosleep(&wait, NULL);
}

void kit_hold(CUstream stream, uint32_t *pinned)
{
    __atomic_store_n(pinned, 0, __ATOMIC_SEQ_CST);
    MUST(cu.cuStreamWaitValue32_v2(stream, (uintptr_t)pinned, 1, CU_STREAM_WAIT_VALUE_GEQ));
}

void kit_release(uint32_t *pinned)
{
    __atomic_store_n(pinned, 1, __ATOMIC_SEQ_CST);
}

static struct {
    uint32_t *values;
    unsigned count, seconds;
} late;
static bool struck;

/*
 * Counts the time in which all other threads sleep, and a quarter of the time in which one runs or waits for a CPU: a
 * busy machine makes a copy slow, and a driver may wait without sleep.
 */
static void *clock_thread(void *unused)
{
    (void)unused;
    for (unsigned quarters = 0; quarters < late.seconds * 40; kit_sleep_us(100000))
        quarters += kit_others_sleep() ? 4 : 1;
    for (unsigned i = 0; i < late.count; i++)
        if (__atomic_exchange_n(&late.values[i], 1, __ATOMIC_SEQ_CST) == 0)
            __atomic_store_n(&struck, true, __ATOMIC_SEQ_CST);
    return NULL;
}

void kit_clock(uint32_t *values, unsigned length)
{
    const char *other = getenv("KIT_CLOCK");
    pthread_t thread;
    late.values = values;
    late.count = length;
    late.seconds = other ? (unsigned)strtoul(other, NULL, 10) : 3;
    if (pthread_create(&thread, NULL, clock_thread, NULL))
        kit_fail("pthread_create", 0);
}

bool kit_clock_struck(void)
{
    return __atomic_load_n(&struck, __ATOMIC_SEQ_CST);
}

void kit_release_late(void *pinned)
{
    kit_sleep_us(50000);
    kit_release(pinned);
}
