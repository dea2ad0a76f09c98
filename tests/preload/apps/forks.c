/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the cost of forks of this process, and prints numbers.
 *   alone                    page faults in the parent around a fork, and in the child until fork
 *                            has returned there: medians
 *   pinned BLOCKS BYTES      the same with pinned blocks of this size, once all helpers run
 *   mappings BLOCKS BYTES    the number of mappings of these pinned blocks
 *   busy                     forks by two threads at once, while other threads allocate, start and
 *                            end; prints how many children could allocate
 *   busy gpu                 the same with a context
 */
#include <cuda.h>

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMES 31
#define HELPERS 9

static void must(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

static void use_heap(size_t bytes)
{
    char *volatile block = malloc(bytes);
    memset(block, 1, bytes);
    free(block);
}

static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static int by_value(const void *a, const void *b)
{
    const long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

static void count_faults(void)
{
    long here[TIMES], child[TIMES];
    volatile long *told =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(told != MAP_FAILED, "mmap");
    *told = 0;
    for (int i = 0; i < TIMES; i++) {
        const long before = faults();
        const pid_t pid = fork();
        if (pid == 0) {
            *told = faults();
            _exit(0);
        }
        here[i] = faults() - before;
        must(pid > 0 && waitpid(pid, NULL, 0) == pid, "fork");
        child[i] = *told;
    }
    qsort(here, TIMES, sizeof here[0], by_value);
    qsort(child, TIMES, sizeof child[0], by_value);
    printf("%ld %ld\n", here[TIMES / 2], child[TIMES / 2]);
}

/* Waits up to ten seconds for the library's helpers. Without the library, there are none. */
static bool has_helpers(void)
{
    for (int i = 0; i < 1000; i++, usleep(10000)) {
        int found = 0;
        DIR *tasks = opendir("/proc/self/task");
        for (struct dirent *entry; (entry = readdir(tasks));) {
            char path[512], name[32] = "";
            snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
            FILE *file = fopen(path, "re");
            if (file && fgets(name, sizeof name, file))
                found += strcmp(name, "gpufeed-copy\n") == 0;
            if (file)
                fclose(file);
        }
        closedir(tasks);
        if (found == HELPERS)
            return true;
    }
    return false;
}

static unsigned mappings_within(const char *at, size_t bytes)
{
    char line[512];
    unsigned found = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps)) {
        const char *start = (const char *)strtoul(line, NULL, 16);
        found += start >= at && start < at + bytes;
    }
    if (maps)
        fclose(maps);
    return found;
}

/* The number of mappings of all blocks together. */
static unsigned hold(int blocks, size_t bytes)
{
    CUcontext context;
    unsigned found = 0;
    must(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context),
         "context");
    for (int i = 0; i < blocks; i++) {
        void *at;
        must(!cuMemHostAlloc(&at, bytes, 0), "cuMemHostAlloc");
        found += mappings_within(at, bytes);
    }
    return found;
}

static bool ending;

static void *allocate(void *arg)
{
    for (size_t size = 8; !__atomic_load_n(&ending, __ATOMIC_RELAXED); size = size % 100000 * 3 + 8)
        use_heap(size);
    return arg;
}

static void *allocate_a_little(void *arg)
{
    use_heap(100);
    return arg;
}

static void *bear_threads(void *arg)
{
    pthread_t thread;
    while (!__atomic_load_n(&ending, __ATOMIC_RELAXED)) {
        must(!pthread_create(&thread, NULL, allocate_a_little, NULL), "pthread_create");
        pthread_join(thread, NULL);
    }
    return arg;
}

static int forked_well(int times)
{
    int good = 0;
    for (int i = 0; i < times; i++) {
        int status = 1;
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(20);
            for (size_t size = 8; size < 200000; size = size * 3 / 2)
                use_heap(size);
            const pid_t inner = fork(); /* the child has only one thread */
            if (inner == 0)
                _exit(0);
            waitpid(inner, &status, 0);
            use_heap(100000);
            _exit(status);
        }
        must(pid > 0 && waitpid(pid, &status, 0) == pid, "fork");
        good += status == 0;
    }
    return good;
}

static void *fork_too(void *good)
{
    *(int *)good = forked_well(30);
    return NULL;
}

static int fork_among(void)
{
    static void *(*const run[])(void *) = {fork_too, allocate, allocate,
                                           allocate, allocate, bear_threads};
    enum { threads = sizeof run / sizeof *run };
    pthread_t thread[threads];
    int theirs = 0;
    for (int i = 0; i < threads; i++)
        must(!pthread_create(&thread[i], NULL, run[i], &theirs), "pthread_create");
    const int mine = forked_well(30);
    pthread_join(thread[0], NULL);
    __atomic_store_n(&ending, true, __ATOMIC_RELAXED);
    for (int i = 1; i < threads; i++)
        pthread_join(thread[i], NULL);
    return mine + theirs;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const int blocks = argc > 2 ? atoi(argv[2]) : 0;
    const size_t bytes = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;

    use_heap(1000);
    if (strcmp(what, "alone") == 0) {
        count_faults();
    } else if (strcmp(what, "pinned") == 0) {
        hold(blocks, bytes);
        if (getenv("LD_PRELOAD"))
            must(has_helpers(), "no helpers");
        count_faults();
    } else if (strcmp(what, "mappings") == 0) {
        printf("%u\n", hold(blocks, bytes));
    } else if (strcmp(what, "busy") == 0) {
        if (argc > 2)
            hold(0, 0);
        printf("%d\n", fork_among());
    } else {
        return 2;
    }
    return 0;
}
