/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The effect of retained freed pages on forks and on resident memory, under any preload:
 *
 *   fill MIB CHILDREN   fills and frees a batch, and forks children that stay alive -> ms of wall and
 *                       CPU time for the parent's next fill of the same size
 *   exec MIB            the same batch -> ms until a forked child has become `true` and ended, twice
 *   turns THREADS       this many threads, one after the other; each uses 10000 blocks of up to 2 KiB
 *   four THREADS        the same number, four at a time; each uses 50000 blocks of up to 144 bytes
 *   beside ROUNDS       fills and frees 64 MiB, and replaces blocks of up to 2 KiB
 *   middle ROUNDS       the same with blocks of 4 to 128 KiB
 *   batches ROUNDS      batches of 16 to 80 MiB, and blocks of up to 256 KiB
 *
 * The last five print the most resident MiB, CPU seconds, and page faults for each thread or round.
 */
#include "blocks.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define WARM 3
#define CHILDREN_MOST 64
#define AT_A_TIME 4
#define SLOTS 4000

static double ms_now(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec * 1e-6;
}

static pid_t child_that_waits(const int up[2], const int end[2])
{
    char byte = 0;
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    close(end[1]);
    if (write(up[1], &byte, 1) != 1)
        _exit(1);
    _exit(read(end[0], &byte, 1) != 0);
}

static int kind_fill(size_t mib, int children)
{
    int up[2], end[2], bad = 0;
    char byte;
    for (int i = 0; i < WARM; i++)
        free(filled(mib * MIB));
    if (children > CHILDREN_MOST || pipe(up) || pipe(end))
        return 1;
    for (int i = 0; i < children; i++)
        if (child_that_waits(up, end) < 0 || read(up[0], &byte, 1) != 1)
            return 1;
    const double start = ms_now(CLOCK_MONOTONIC), used = ms_now(CLOCK_PROCESS_CPUTIME_ID);
    void *block = filled(mib * MIB);
    printf("%.3f %.3f\n", ms_now(CLOCK_MONOTONIC) - start, ms_now(CLOCK_PROCESS_CPUTIME_ID) - used);
    free(block);
    close(end[1]);
    for (int status; wait(&status) > 0;)
        bad |= status;
    return bad != 0;
}

static double fork_exec_ms(void)
{
    const double start = ms_now(CLOCK_MONOTONIC);
    int status = 1;
    const pid_t pid = fork();
    if (pid == 0) {
        unsetenv("LD_PRELOAD");
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    if (waitpid(pid, &status, 0) != pid || status)
        exit(1);
    return ms_now(CLOCK_MONOTONIC) - start;
}

static int kind_exec(size_t mib)
{
    for (int i = 0; i < WARM; i++)
        free(filled(mib * MIB));
    const double first = fork_exec_ms();
    printf("%.3f %.3f\n", first, fork_exec_ms());
    return 0;
}

struct load {
    size_t blocks, least, spread;
};

static void *many_blocks(void *closure)
{
    const struct load *load = closure;
    void **blocks = malloc(load->blocks * sizeof *blocks);
    uint32_t seed = 1;
    if (!blocks)
        exit(1);
    for (size_t i = 0; i < load->blocks; i++)
        blocks[i] = filled(load->least + chance(&seed) % load->spread);
    for (size_t i = 0; i < load->blocks; i++)
        free(blocks[i]);
    free(blocks);
    return NULL;
}

static void threads(int count, int at_a_time, struct load load)
{
    pthread_t running[AT_A_TIME];
    for (int done = 0; done < count; done += at_a_time) {
        for (int i = 0; i < at_a_time; i++)
            if (pthread_create(&running[i], NULL, many_blocks, &load))
                exit(1);
        for (int i = 0; i < at_a_time; i++)
            pthread_join(running[i], NULL);
    }
}

/* In each round, replaces half of the blocks, and then fills a batch. */
static void rounds(int count, struct load load, size_t least_mib, size_t spread_mib)
{
    static void *slot[SLOTS];
    uint32_t seed = 1;
    for (int round = 0; round < count; round++) {
        for (size_t i = 0; i < load.blocks / 2; i++) {
            void **at = &slot[chance(&seed) % load.blocks];
            free(*at);
            *at = filled(load.least + chance(&seed) % load.spread);
        }
        free(filled((least_mib + chance(&seed) % spread_mib) * MIB));
    }
}

static int come_and_go(const char *kind, int count)
{
    if (strcmp(kind, "turns") == 0)
        threads(count, 1, (struct load){10000, 16, 2032});
    else if (strcmp(kind, "four") == 0)
        threads(count, AT_A_TIME, (struct load){50000, 16, 128});
    else if (strcmp(kind, "beside") == 0)
        rounds(count, (struct load){SLOTS, 16, 2032}, 64, 1);
    else if (strcmp(kind, "middle") == 0)
        rounds(count, (struct load){SLOTS, 4 << 10, 124 << 10}, 64, 1);
    else if (strcmp(kind, "batches") == 0)
        rounds(count, (struct load){1000, 16, 256 << 10}, 16, 65);
    else
        return 2;
    return 0;
}

/*
 * Runs one of the last five kinds and prints its result. Faults of the first few rounds do not
 * count.
 */
static int resident(const char *kind, int count)
{
    struct rusage before, after;
    if (come_and_go(kind, count / 5))
        return 2;
    getrusage(RUSAGE_SELF, &before);
    come_and_go(kind, count);
    getrusage(RUSAGE_SELF, &after);
    printf("%.1f %.3f %.1f\n", (double)after.ru_maxrss / 1024,
           ms_now(CLOCK_PROCESS_CPUTIME_ID) / 1e3,
           (double)(after.ru_minflt - before.ru_minflt) / count);
    return 0;
}

int main(int argc, char **argv)
{
    const int number = argc > 2 ? atoi(argv[2]) : 0;
    if (number < 1)
        return 2;
    if (strcmp(argv[1], "fill") == 0)
        return kind_fill((size_t)number, argc > 3 ? atoi(argv[3]) : 8);
    if (strcmp(argv[1], "exec") == 0)
        return kind_exec((size_t)number);
    return resident(argv[1], number);
}
