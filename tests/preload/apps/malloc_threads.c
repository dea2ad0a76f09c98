/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that allocate: blocks move between threads, destructors run at their exit, and the
 * process forks while they run.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 100
#define SLOTS 512

static void *slots[SLOTS];
static volatile int stop;
static pthread_key_t key;
static long rounds = 600;
static int forks = 200;
static int child_threads = 1;

static unsigned next(unsigned *seed)
{
    return *seed = *seed * 1664525 + 1013904223;
}

static void check_and_free(void *block)
{
    unsigned char *bytes = block;
    size_t size;
    if (!block)
        return;
    memcpy(&size, block, sizeof(size));
    if (bytes[size - 1] != (unsigned char)size) {
        fprintf(stderr, "a block of %zu was overwritten\n", size);
        abort();
    }
    free(block);
}

static void *make(unsigned *seed)
{
    const size_t size = 16 + (next(seed) >> 8) % (next(seed) >> 28 ? 2000 : 200000);
    unsigned char *block = (next(seed) >> 30) ? malloc(size) : calloc(1, size);
    memcpy(block, &size, sizeof(size));
    block[size - 1] = (unsigned char)size;
    return block;
}

/* Frees blocks that other threads allocated. */
static void *churn(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    pthread_setspecific(key, make(&seed));
    for (long i = 0; i < rounds && !stop; i++) {
        void **slot = &slots[(next(&seed) >> 8) % SLOTS];
        check_and_free(__atomic_exchange_n(slot, make(&seed), __ATOMIC_ACQ_REL));
    }
    return NULL;
}

/* Runs when jemalloc's own thread data may already be freed. Allocates once more to test that. */
static void at_thread_exit(void *block)
{
    unsigned seed = 1;
    check_and_free(block);
    check_and_free(make(&seed));
}

static void start(pthread_t *threads, int count)
{
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, churn, (void *)(uintptr_t)(i + 1)))
            abort();
}

static void join(pthread_t *threads, int count)
{
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static int child(void)
{
    unsigned seed = (unsigned)getpid();
    pthread_t thread;
    for (int i = 0; i < 200; i++)
        check_and_free(make(&seed));
    if (child_threads) {
        rounds = 50;
        start(&thread, 1);
        join(&thread, 1);
    }
    return 0;
}

static int fork_while_they_allocate(void)
{
    static pthread_t threads[4];
    int good = 0;
    rounds = 1L << 40;
    start(threads, 4);
    for (int i = 0; i < forks; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(60); /* a deadlock ends in a failure, not in a hang */
            _exit(child());
        }
        int status = -1;
        waitpid(pid, &status, 0);
        good += status == 0;
    }
    stop = 1;
    join(threads, 4);
    return good;
}

int main(void)
{
    static pthread_t threads[THREADS];
    const char *wish = getenv("CHILD_THREADS"), *other = getenv("ROUNDS"), *fewer = getenv("FORKS");
    child_threads = !wish || atoi(wish);
    rounds = other ? atol(other) : rounds;
    forks = fewer ? atoi(fewer) : forks;
    pthread_key_create(&key, at_thread_exit);
    start(threads, THREADS);
    join(threads, THREADS);
    printf("churned\n");
    printf("%d children of %d\n", fork_while_they_allocate(), forks);
    for (int i = 0; i < SLOTS; i++)
        check_and_free(slots[i]);
    return 0;
}
