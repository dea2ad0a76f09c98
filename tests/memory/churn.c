/* SPDX-License-Identifier: Apache-2.0 */
/*
 * churn KIND COUNT ROUNDS: threads and processes that come and go. Prints what is resident in the middle of the rounds
 * (rss of the first line) and at the end.
 *
 *   joined    each round starts COUNT threads that exist at the same time, use some blocks and end
 *   passed    the same, but the main thread frees the blocks
 *   children  each round frees 64 MiB and forks COUNT children, which free what the parent allocated, and use 2 MiB
 */
#include "program.h"

#include <pthread.h>
#include <sys/wait.h>

#define BLOCKS 40
#define MOST 2000

static pthread_barrier_t all;
static int passed;

struct worker {
    pthread_t thread;
    char *block[BLOCKS];
};

static void *work(void *arg)
{
    struct worker *worker = arg;
    uint64_t seed = (uintptr_t)arg;
    for (int i = 0; i < BLOCKS; i++)
        worker->block[i] =
            touched(i < 8 ? 8192 + chance(&seed) % (40 << 10) : 16 + chance(&seed) % 2000);
    pthread_barrier_wait(&all);
    for (int i = 0; !passed && i < BLOCKS; i++)
        free(worker->block[i]);
    return NULL;
}

static void threads(int count)
{
    static struct worker worker[MOST];
    pthread_barrier_init(&all, NULL, (unsigned)count);
    for (int i = 0; i < count; i++)
        if (pthread_create(&worker[i].thread, NULL, work, &worker[i]))
            fail("thread");
    for (int i = 0; i < count; i++) {
        pthread_join(worker[i].thread, NULL);
        for (int k = 0; passed && k < BLOCKS; k++)
            free(worker[i].block[k]);
    }
    pthread_barrier_destroy(&all);
}

static void children(int count)
{
    char *freed = touched(64 * MIB), *inherited[8];
    for (int i = 0; i < 8; i++)
        inherited[i] = touched(i < 4 ? 5 * MIB : 100000);
    free(freed);
    for (int i = 0; i < count; i++)
        if (fork() == 0) {
            alarm(30);
            for (int k = 0; k < 8; k++)
                free(inherited[k]);
            free(touched(2 * MIB));
            _exit(0);
        }
    for (int status; wait(&status) > 0;)
        if (status)
            fail("child");
    for (int i = 0; i < 8; i++) {
        if (inherited[i][0] != 1)
            fail("content");
        free(inherited[i]);
    }
}

int main(int argc, char **argv)
{
    const int count = argc > 3 ? atoi(argv[2]) : 0, rounds = argc > 3 ? atoi(argv[3]) : 0;
    if (count < 1 || count > MOST)
        return 2;
    passed = argv[1][0] == 'p';
    start_engine_if_asked();
    long middle = 0;
    for (int round = 0; round < rounds; round++) {
        if (argv[1][0] == 'c')
            children(count);
        else
            threads(count);
        if (round == rounds / 2)
            middle = kib_of("self", "status", "VmRSS");
    }
    put_result((double)(kib_of("self", "status", "VmRSS") - middle) / 1024);
    return 0;
}
