// SPDX-License-Identifier: Apache-2.0
/*
 * Times starts of a program under different preloads:
 *
 *     spawn ROUNDS AT_ONCE PRELOAD... -- PROGRAM ARGS...      PRELOAD "none": no preload
 *
 * Each round starts PROGRAM by posix_spawn, AT_ONCE times at the same time, under each preload in
 * turn. Rounds begin with different preloads, so that other work on the machine affects all equally.
 * This process has no preload. Prints a line for each preload: the median wall time of a batch and
 * the median CPU time of a start, both in ns, and the median number of page faults of a start.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

struct variant {
    const char *preload;
    double *wall, *cpu, *faults; /* by round */
};

static double now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static double time_ns(struct timeval time)
{
    return (double)time.tv_sec * 1e9 + (double)time.tv_usec * 1e3;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), ascending);
    return values[count / 2];
}

static void fail(const char *program, const char *why)
{
    fprintf(stderr, "spawn: %s: %s\n", program, why);
    exit(1);
}

static void batch(struct variant *variant, int round, int at_once, char **command)
{
    pid_t pid;
    double cpu = 0, faults = 0;

    if (strcmp(variant->preload, "none") == 0)
        unsetenv("LD_PRELOAD");
    else
        setenv("LD_PRELOAD", variant->preload, 1);
    double start = now_ns();
    for (int i = 0; i < at_once; i++) {
        int error = posix_spawn(&pid, command[0], NULL, NULL, command, environ);
        if (error != 0)
            fail(command[0], strerror(error));
    }
    for (int i = 0; i < at_once; i++) {
        struct rusage usage;
        int status;
        if (wait4(-1, &status, 0, &usage) < 0 || status != 0)
            fail(command[0], "did not end with exit code 0");
        cpu += time_ns(usage.ru_utime) + time_ns(usage.ru_stime);
        faults += (double)usage.ru_minflt;
    }
    variant->wall[round] = now_ns() - start;
    variant->cpu[round] = cpu / at_once;
    variant->faults[round] = faults / at_once;
}

int main(int argc, char **argv)
{
    int count = 0;
    while (3 + count < argc && strcmp(argv[3 + count], "--") != 0)
        count++;
    int rounds = argc > 2 ? atoi(argv[1]) : 0, at_once = argc > 2 ? atoi(argv[2]) : 0;
    if (rounds < 1 || at_once < 1 || count < 1 || 4 + count >= argc)
        fail("usage", "spawn ROUNDS AT_ONCE PRELOAD... -- PROGRAM ARGS...");

    struct variant *variants = calloc((size_t)count, sizeof(*variants));
    double *values = calloc((size_t)count * (size_t)rounds * 3, sizeof(*values));
    if (variants == NULL || values == NULL)
        fail("spawn", "out of memory");
    for (int i = 0; i < count; i++) {
        double *wall = values + (size_t)i * 3 * (size_t)rounds;
        variants[i] = (struct variant){argv[3 + i], wall, wall + rounds, wall + 2 * rounds};
    }
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < count; i++)
            batch(&variants[(round + i) % count], round, at_once, argv + 4 + count);
    for (int i = 0; i < count; i++)
        printf("%.0f %.0f %.0f\n", median(variants[i].wall, rounds),
               median(variants[i].cpu, rounds), median(variants[i].faults, rounds));
    free(values);
    free(variants);
    return 0;
}
