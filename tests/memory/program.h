/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of this folder share: a context on the GPU if MEMORY_ENGINE is set, sizes of the process, and the
 * last line, which memorykit.py reads. */
#pragma once

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define PAGE 4096

static inline void fail(const char *what)
{
    printf("failed: %s\n", what);
    exit(3);
}

static inline int maps_name(const char *name)
{
    char line[512];
    int found = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, name) != NULL;
    if (file)
        fclose(file);
    return found;
}

/* Page faults of this thread until the program's own work began: those of cuInit are not the heap's. */
static long faults_at_begin;

static inline long page_faults(void)
{
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_minflt;
}

static inline void start_engine(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*init)(unsigned) = driver ? dlsym(driver, "cuInit") : NULL;
    int (*retain)(void **, int) = driver ? dlsym(driver, "cuDevicePrimaryCtxRetain") : NULL;
    int (*set)(void *) = driver ? dlsym(driver, "cuCtxSetCurrent") : NULL;
    if (!init || !retain || !set || init(0) || retain(&context, 0) || set(context))
        fail("no context");
    for (int i = 0; i < 200 && maps_name("libgpufeed.so") && !maps_name("libgpufeed-engine.so");
         i++)
        usleep(50000);
    usleep(300000);
}

/* With the library, cuInit loads the engine. The program waits for it, because a test of a process with an engine must
 * not begin as a process without one. */
static inline void start_engine_if_asked(void)
{
    if (getenv("MEMORY_ENGINE"))
        start_engine();
    faults_at_begin = page_faults();
}

/* A line of /proc/PID/FILE in KiB, such as VmRSS of status. */
static inline long kib_of(const char *pid, const char *name, const char *line_name)
{
    char path[64], line[256];
    long value = 0;
    const size_t length = strlen(line_name);
    snprintf(path, sizeof path, "/proc/%s/%s", pid, name);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, line_name, length) == 0 && line[length] == ':')
            value = atol(line + length + 1);
    if (file)
        fclose(file);
    return value;
}

static inline double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static inline void put_result(double held)
{
    printf("{\"peak\": %.1f, \"rss\": %.1f, \"held\": %.1f, \"cpu\": %.3f, \"faults\": %ld}\n",
           (double)kib_of("self", "status", "VmHWM") / 1024,
           (double)kib_of("self", "status", "VmRSS") / 1024, held, cpu_seconds(),
           page_faults() - faults_at_begin);
}

/* How often a program repeats what it does, before a release and in the suite. */
static inline int scaled(int full, int suite)
{
    const char *asked = getenv("MEMORY_FULL");
    return asked && *asked && *asked != '0' ? full : suite;
}

static inline int times(int suite)
{
    return scaled(5 * suite, suite);
}

/* Writes one byte of each page, and the last byte. The compiler knows malloc and would omit stores into a block that
 * is not read. */
static inline void touch(char *block, size_t size)
{
    __asm__ volatile("" : "+r"(block) : : "memory");
    for (size_t i = 0; i < size; i += PAGE)
        block[i] = 1;
    if (size)
        block[size - 1] = 1;
}

static inline char *touched(size_t size)
{
    char *block = malloc(size);
    if (!block)
        fail("malloc");
    touch(block, size);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

static inline size_t chance(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(*seed >> 24);
}
