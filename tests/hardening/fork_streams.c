/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks while other threads read lines (getline allocates with the FILE locked) and flush all FILEs
 * (fflush(NULL) locks libc's list of FILEs, and waits for each of them):
 *   fork_streams held [gpu]             one fork, while a flush waits for a FILE whose holder allocates
 *   fork_streams busy FORKS [gpu]       FORKS forks from two threads
 *   fork_streams soak SECONDS [gpu]     forks for SECONDS
 * Every child opens, writes and closes a FILE, allocates and flushes. SIGALRM kills a process that
 * makes no progress for a minute.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STALLED = 60, FORKERS = 2, READERS = 2, LINES = 200 };
static long wanted, forked, failed, reads, flushes;
static time_t end;
static int over, forking, holding;
static FILE *stream;

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    _exit(1);
}

static void allocate(void)
{
    void *volatile block[20];
    for (int i = 0; i < 20; i++)
        block[i] = malloc(100000);
    for (int i = 0; i < 20; i++)
        free(block[i]);
}

/* Work of a child, which uses libc's list of FILEs. */
static void child(void)
{
    char *text = NULL;
    size_t size = 0;
    alarm(STALLED);
    FILE *out = open_memstream(&text, &size), *null = fopen("/dev/null", "w");
    allocate();
    if (!out || !null || fprintf(out, "%d", 7) != 1 || fputs("x", null) < 0 || fclose(out) ||
        fclose(null))
        _exit(1);
    _exit(size == 1 && *text == '7' ? 0 : 2);
}

static void fork_once(void)
{
    int status;
    const pid_t pid = fork();
    if (pid == 0)
        child();
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
        __atomic_fetch_add(&failed, 1, 5);
    alarm(STALLED);
}

static int more(void)
{
    const long number = __atomic_fetch_add(&forked, 1, 5);
    return end ? time(NULL) < end : number < wanted;
}

static void *fork_often(void *arg)
{
    while (more())
        fork_once();
    __atomic_store_n(&over, 1, 5);
    return arg;
}

static void *read_lines(void *arg)
{
    FILE *file = tmpfile();
    char filler[1000];
    memset(filler, 'x', sizeof(filler) - 1);
    filler[sizeof(filler) - 1] = 0;
    if (!file)
        fail("no file");
    for (int i = 0; i < LINES; i++)
        fprintf(file, "%.*s\n", 5 * i, filler);
    while (!__atomic_load_n(&over, 5)) {
        char *line = NULL;
        size_t size = 0;
        int lines = 0;
        rewind(file);
        for (; getline(&line, &size, file) >= 0; lines++, free(line), line = NULL, size = 0)
            ;
        free(line);
        if (lines != LINES)
            fail("lines are missing");
        __atomic_fetch_add(&reads, 1, 5);
    }
    return arg;
}

static void *flush(void *arg)
{
    while (!__atomic_load_n(&over, 5)) {
        fflush(NULL);
        __atomic_fetch_add(&flushes, 1, 5);
        /* Without this pause, forks wait long for the list, even without the library. */
        usleep(100);
    }
    return arg;
}

static void *allocate_often(void *arg)
{
    while (!__atomic_load_n(&over, 5))
        allocate();
    return arg;
}

static pthread_t start(void *(*run)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL))
        fail("no thread");
    return thread;
}

static void run_busy(void)
{
    pthread_t thread[FORKERS + READERS + 3];
    int count = 0;
    alarm(STALLED);
    for (int i = 0; i < READERS; i++)
        thread[count++] = start(read_lines);
    thread[count++] = start(flush);
    thread[count++] = start(flush);
    thread[count++] = start(allocate_often);
    for (int i = 0; i < FORKERS; i++)
        thread[count++] = start(fork_often);
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    if (end)
        printf("%ld forks, %ld reads, %ld flushes\n", forked - FORKERS, reads, flushes);
}

/* Holds the lock of the FILE, and allocates until the fork has waited for a while. */
static void *hold(void *arg)
{
    flockfile(stream);
    __atomic_store_n(&holding, 1, 5);
    while (!__atomic_load_n(&forking, 5))
        allocate();
    for (int i = 0; i < 100; i++, usleep(2000))
        allocate();
    funlockfile(stream);
    return arg;
}

static void *flush_once(void *arg)
{
    fflush(NULL);
    return arg;
}

static void tell(void)
{
    __atomic_store_n(&forking, 1, 5);
}

static void run_held(void)
{
    pthread_t owner, flusher;
    alarm(STALLED);
    if (!(stream = tmpfile()) || pthread_atfork(tell, NULL, NULL))
        fail("no file");
    owner = start(hold);
    while (!__atomic_load_n(&holding, 5))
        usleep(1000);
    flusher = start(flush_once);
    usleep(
        100000); /* until the flush waits for the stream; if it is too short, the test finds less */
    fork_once();
    pthread_join(owner, NULL);
    pthread_join(flusher, NULL);
}

int main(int argc, char **argv)
{
    CUcontext context;
    if (strcmp(argv[argc - 1], "gpu") == 0) {
        if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
            return 1;
        argc--;
    }
    if (strcmp(argv[1], "held") == 0) {
        run_held();
    } else {
        if (argc < 3)
            return 1;
        if (strcmp(argv[1], "soak") == 0)
            end = time(NULL) + atol(argv[2]);
        else
            wanted = atol(argv[2]);
        run_busy();
    }
    if (failed)
        fail("children failed");
    puts("forked");
    fflush(stdout);
    _exit(0);
}
