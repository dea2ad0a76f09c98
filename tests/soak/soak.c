/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses its allocator as long jobs do, in many ways at the same time: soak SECONDS.
 * It checks marks in each block before it frees the block, and compares the exit codes of children
 * with the expected ones. Now and then it prints a line "sample SECOND RSS LAZYFREE MAPPINGS FILES
 * THREADS" (sizes in bytes). At the end, it prints "done" and how often each kind of work was done.
 * The first error ends it with exit code 9.
 */
#include "soak.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

volatile bool soak_over;
struct soak_tally soak_tally;

void soak_fail(const char *format, ...)
{
    char text[256];
    va_list list;

    va_start(list, format);
    const int length = vsnprintf(text, sizeof(text) - 1, format, list);
    va_end(list);
    text[length] = '\n';
    if (write(2, text, (size_t)length + 1) < 0)
        _exit(8);
    _exit(9);
}

uint32_t soak_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static long lines_of(const char *path, const char *key)
{
    char line[512];
    long count = 0, value = 0;
    FILE *file = fopen(path, "r");

    while (file && fgets(line, sizeof(line), file)) {
        count++;
        if (key && strncmp(line, key, strlen(key)) == 0)
            value = atol(line + strlen(key));
    }
    if (file)
        fclose(file);
    return key ? value : count;
}

static void sample(double second)
{
    int files = 0;
    for (int fd = 0; fd < 256; fd++)
        files += fcntl(fd, F_GETFD) >= 0;
    printf("sample %.0f %ld %ld %ld %d %ld\n", second,
           lines_of("/proc/self/smaps_rollup", "Rss:") << 10,
           lines_of("/proc/self/smaps_rollup", "LazyFree:") << 10,
           lines_of("/proc/self/maps", NULL), files, lines_of("/proc/self/status", "Threads:"));
    fflush(stdout);
}

static void *open_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
    int (*retain)(void **, int) =
        driver ? (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain") : NULL;
    void *context;

    if (!init || init(0) || !retain || retain(&context, 0))
        soak_fail("no driver: %s", dlerror());
    return driver;
}

static const struct {
    void *(*run)(void *);
    unsigned threads;
} works[] = {
    {soak_mix, 3},          {soak_exchange, 2}, {soak_batches, 1},
    {soak_thread_churn, 1}, {soak_forks, 1},    {soak_signals, 1},
    {soak_faults, 1},       {soak_mappings, 1}, {soak_copies, 1},
};

int main(int argc, char **argv)
{
    const struct rlimit none = {0, 0};
    pthread_t threads[16];
    size_t count = 0;

    if (argc == 3 && strcmp(argv[1], "child") == 0)
        return soak_child(atoi(argv[2]));
    if (argc != 2)
        return 2;
    setrlimit(RLIMIT_CORE, &none);
    void *driver = open_driver();
    soak_prepare();
    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
        for (unsigned k = 0; k < works[i].threads; k++)
            if (pthread_create(&threads[count++], NULL, works[i].run, driver))
                soak_fail("no thread");
    const double start = now(), seconds = atof(argv[1]), gap = seconds / 60;
    for (double next = 0; now() - start < seconds; next += gap) {
        while (now() - start < next)
            usleep(50000);
        sample(now() - start);
    }
    soak_over = true;
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf(
        "done mixed %lu exchanged %lu batches %lu threads %lu children %lu signals %lu faults %lu "
        "mappings %lu copies %lu\n",
        soak_tally.mixed, soak_tally.exchanged, soak_tally.batches, soak_tally.threads,
        soak_tally.children, soak_tally.signals, soak_tally.faults, soak_tally.mappings,
        soak_tally.copies);
    return 0;
}
