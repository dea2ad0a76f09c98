/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One arm of bench/fork.py: a process that answers each line of standard input by one line. With the
 * argument "cuda", it first creates a context.
 *
 *   hold how=driver|zero bytes=N blocks=N
 *                             allocates pinned memory by cuMemHostAlloc, or maps memory as the driver
 *                             does, and keeps it -> number of mappings
 *   threads count=N           starts threads that call malloc once and sleep -> number of threads
 *   fork times=N              -> medians: seconds until fork() returns in the parent, until it returns
 *                             in the child, and until the parent sees the child's exit; page faults in
 *                             parent and child
 *   quit
 */
#include "driver.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 128

enum { here, in_child, whole, faults_here, faults_in_child, figures };

static void *blocks[MOST];
static size_t held, bytes;
static bool of_driver;

static void *map_zero(size_t size)
{
    const int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, zero, 0);
    if (zero < 0 || at == MAP_FAILED)
        exit(1);
    close(zero);
    return at;
}

static unsigned mappings(void)
{
    unsigned lines = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    for (int c; maps && (c = fgetc(maps)) != EOF;)
        lines += c == '\n';
    if (maps)
        fclose(maps);
    return lines;
}

static void hold(const char *line)
{
    for (; held > 0; held--)
        if (of_driver)
            MUST(cu.cuMemFreeHost(blocks[held - 1]));
        else
            munmap(blocks[held - 1], bytes);
    of_driver = strcmp(word(line, "how", "driver"), "driver") == 0;
    bytes = number(line, "bytes", 4096);
    for (const size_t wanted = number(line, "blocks", 0); held < wanted && held < MOST; held++)
        if (of_driver)
            MUST(cu.cuMemHostAlloc(&blocks[held], bytes, 0));
        else
            blocks[held] = map_zero(bytes);
    printf("%u\n", mappings());
}

/* Starts the heap, and creates this thread's cache. */
static void use_heap(void)
{
    void *volatile block = malloc(100);
    free(block);
}

static void *sleeper(void *ready)
{
    use_heap();
    pthread_barrier_wait(ready);
    while (pause())
        ;
    return NULL;
}

static void threads(size_t count)
{
    pthread_barrier_t ready;
    pthread_barrier_init(&ready, NULL, (unsigned)count + 1);
    for (size_t i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, sleeper, &ready))
            exit(1);
    }
    pthread_barrier_wait(&ready);
    printf("%zu\n", count);
}

static double faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_minflt;
}

static void fork_once(double *told, double found[figures])
{
    const double before = faults(), start = seconds_now(CLOCK_MONOTONIC);
    const pid_t child = fork();
    if (child == 0) {
        told[0] = seconds_now(CLOCK_MONOTONIC);
        told[1] = faults();
        _exit(0);
    }
    found[here] = seconds_now(CLOCK_MONOTONIC) - start;
    found[faults_here] = faults() - before;
    if (child < 0 || waitpid(child, NULL, 0) != child)
        exit(1);
    found[whole] = seconds_now(CLOCK_MONOTONIC) - start;
    found[in_child] = told[0] - start;
    found[faults_in_child] = told[1];
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void forks(size_t times)
{
    static double rows[figures][MOST];
    double *told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED || !times || times > MOST)
        exit(1);
    for (size_t i = 0; i < times; i++) {
        double found[figures];
        fork_once(told, found);
        for (int f = 0; f < figures; f++)
            rows[f][i] = found[f];
    }
    munmap(told, 4096);
    for (int f = 0; f < figures; f++) {
        qsort(rows[f], times, sizeof rows[f][0], by_value);
        printf("%.9f%c", rows[f][times / 2], f + 1 < figures ? ' ' : '\n');
    }
}

int main(int argc, char **argv)
{
    char line[512];
    use_heap();
    if (argc > 1 && strcmp(argv[1], "cuda") == 0) {
        open_driver();
        open_device();
    }
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) && strncmp(line, "quit", 4) != 0) {
        if (strncmp(line, "hold ", 5) == 0)
            hold(line);
        else if (strncmp(line, "threads ", 8) == 0)
            threads(number(line, "count", 1));
        else if (strncmp(line, "fork ", 5) == 0)
            forks(number(line, "times", 31));
        else
            return 2;
        fflush(stdout);
    }
    return 0;
}
