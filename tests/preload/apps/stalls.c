/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one kind of stall on purpose: stalls KIND COUNT MIN_US. It times each call itself and
 * prints those that took longer: "name start_ns end_ns tid waits forced cpu_ns". waits and forced
 * are the thread's voluntary and involuntary context switches during the call; cpu_ns is its CPU
 * time. Blocks grow until a call takes twice MIN_US on this machine.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define LARGEST (512 * MIB)

static long count, min_us;
static volatile int done;

static uint64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

struct account {
    long waits, forced;
    uint64_t cpu;
};

static struct account account(void)
{
    struct rusage usage;
    struct timespec cpu;
    getrusage(RUSAGE_THREAD, &usage);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    return (struct account){usage.ru_nvcsw, usage.ru_nivcsw,
                            (uint64_t)cpu.tv_sec * 1000000000 + (uint64_t)cpu.tv_nsec};
}

/* Returns the CPU time in microseconds. */
static long tell(const char *name, uint64_t start, struct account before)
{
    const uint64_t end = now();
    const struct account after = account();
    const uint64_t cpu = after.cpu - before.cpu;
    char line[160];
    if (end - start >= (uint64_t)min_us * 1000) {
        const int length = snprintf(line, sizeof(line), "%s %llu %llu %d %ld %ld %llu\n", name,
                                    (unsigned long long)start, (unsigned long long)end, gettid(),
                                    after.waits - before.waits, after.forced - before.forced,
                                    (unsigned long long)cpu);
        if (write(1, line, (size_t)length) < 0)
            exit(1);
    }
    return (long)(cpu / 1000);
}

#define TIMED(name, call)                                                                          \
    ({                                                                                             \
        const struct account before_ = account();                                                  \
        const uint64_t start_ = now();                                                             \
        call;                                                                                      \
        tell(name, start_, before_);                                                               \
    })

/*
 * Calls `round` with growing sizes until a call takes long, and then `count` times with that size.
 */
static void rounds(size_t size, long (*round)(size_t size))
{
    /* Otherwise a busy machine preempts the thread during every call. */
    const struct sched_param first = {.sched_priority = 1};
    sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
    for (long i = 0; i < count; i++) {
        if (round(size) < 2 * min_us && size < LARGEST) {
            size *= 2;
            i = -1;
        }
    }
}

static long releasing(size_t size)
{
    char *block = malloc(size);
    memset(block, 1, size);
    return TIMED("free", free(block));
}

static void small_purges(void)
{
    for (long i = 0; i < count; i++) {
        char *block = malloc(16 * MIB);
        *(volatile char *)block = 1;
        free(block);
    }
}

static long copying(size_t size)
{
    char *block = malloc(size);
    memset(block, 1, size);
    char *fence = malloc(MIB);
    char *moved;
    const long us = TIMED("realloc", moved = realloc(block, 2 * size));
    free(moved);
    free(fence);
    return us;
}

static long clearing(size_t size)
{
    char *block = malloc(size);
    memset(block, 1, size);
    free(block);
    const long us = TIMED("calloc", block = calloc(size, 1));
    free(block);
    return us;
}

static void *contender(void *unused)
{
    void *blocks[64] = {0};
    for (unsigned i = 0; !done; i++) {
        void **at = &blocks[i % 64];
        TIMED("free", free(*at));
        TIMED("malloc", *at = malloc(20000 + i % 7 * 4096));
    }
    return unused;
}

static void contention(void)
{
    pthread_t threads[12];
    for (int i = 0; i < 12; i++)
        pthread_create(&threads[i], NULL, contender, NULL);
    usleep((useconds_t)count * 1000);
    done = 1;
    for (int i = 0; i < 12; i++)
        pthread_join(threads[i], NULL);
}

static void *mapper(void *unused)
{
    while (!done) {
        char *block;
        TIMED("malloc", block = malloc(40 * MIB));
        TIMED("free", free(block));
        usleep(200);
    }
    return unused;
}

/* Returns the CPU time in microseconds in which the parent copied the page tables. */
static long fork_once(void)
{
    const uint64_t before = account().cpu;
    const pid_t child = fork();
    if (!child)
        _exit(0);
    const uint64_t after = account().cpu;
    waitpid(child, NULL, 0);
    return (long)((after - before) / 1000);
}

static void forking(void)
{
    pthread_t thread;
    const size_t most = 600 * MIB;
    char *ballast = malloc(most);
    for (size_t touched = 0; touched < most && (touched % (50 * MIB) || fork_once() < 4 * min_us);
         touched += 4096)
        ballast[touched] = 1;
    pthread_create(&thread, NULL, mapper, NULL);
    for (long i = 0; i < count; i++) {
        fork_once();
        usleep(1000);
    }
    done = 1;
    pthread_join(thread, NULL);
}

/* The parent stops and continues the child, which copies memory all the time. */
static void stopping(void)
{
    const pid_t child = fork();
    if (!child) {
        for (;;)
            copying(32 * MIB);
    }
    for (long i = 0; i < count; i++) {
        usleep(30000);
        kill(child, SIGSTOP);
        usleep(100000);
        kill(child, SIGCONT);
    }
    usleep(100000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    count = atol(argv[2]);
    min_us = atol(argv[3]);
    switch (*argv[1]) {
    case 'p': /* purge */
    case 'u': /* unmap */
        rounds(64 * MIB, releasing);
        break;
    case 'b': /* a burst */
        small_purges();
        break;
    case 'r':
        rounds(48 * MIB, copying);
        break;
    case 'c':
        rounds(48 * MIB, clearing);
        break;
    case 'l': /* lock */
        contention();
        break;
    case 'f':
        forking();
        break;
    case 's':
        stopping();
        break;
    }
    return 0;
}
