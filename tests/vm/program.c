// SPDX-License-Identifier: Apache-2.0
/*
 * Runs the steps on the command line, in order. The observer in guest/ reads the program's masks
 * and pages from outside, in /proc, while the program waits at a `say`.
 *
 *   heap NAME BYTES CHUNK   mallocs BYTES in pieces of CHUNK, writes every page, keeps them
 *   threads NAME N BYTES    N threads that each malloc and write BYTES, then wait
 *   busy N                  N threads that never stop computing
 *   bursts N                N threads that all compute 20 ms at the same time, five times a second
 *   starts N                a thread starts making N threads that only wait
 *   started                 waits until these threads exist
 *   pinned CPU              a thread that sets its own affinity to CPU, then waits
 *   pin LIST                sets the calling thread's own affinity ("0,2,3")
 *   init                    cuInit(0), and waits until the library is active
 *   ctx DEVICE              retains the device's primary context and makes it current
 *   mem DEVICE BYTES        allocates BYTES on the device (its context is made current)
 *   pinmem NAME DEVICE BYTES  pinned memory by cuMemHostAlloc, written; keeps it
 *   h2d DEVICE BYTES N      N copies of BYTES to the device from pageable memory
 *   setenv NAME VALUE
 *   fork N STEP... end      N children run the steps up to `end` and exit; exec is a possible step
 *   sleep MS
 *   say WORD                prints "at WORD PID", waits for SIGUSR1
 *   exec FILE ARG...        execv of the rest of the line
 *   start WAY WORD          starts this program by vfork, posix_spawn, popen or system; it says WORD
 *
 * For each heap and threads step it prints "range NAME START END" lines: the pages that contain the
 * blocks. Adjacent pages are joined.
 */
#include "gpufeed.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE ((uintptr_t)4096)
#define BLOCKS_MAX 65536
#define SECOND UINT64_C(1000000000)
#define BURST_NS (SECOND / 5)

struct block {
    uintptr_t start, end;
};

/*
 * The blocks of one step `heap` or `threads`. The array is static, so that it is not in the pages
 * that are counted.
 */
static struct block blocks[BLOCKS_MAX];
static size_t block_count;
static pthread_mutex_t block_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t touched;
static size_t thread_bytes;

static void fail(const char *what, const char *word, int code)
{
    fprintf(stderr, "program: %s %s: %d\n", what, word, code);
    exit(1);
}

static void keep(char *block, size_t size)
{
    if (!block)
        fail("malloc", "returned NULL", errno);
    for (size_t i = 0; i < size; i += PAGE)
        block[i] = 1;
    block[size - 1] = 1;
    pthread_mutex_lock(&block_lock);
    if (block_count == BLOCKS_MAX)
        fail("too many", "blocks", BLOCKS_MAX);
    blocks[block_count++] = (struct block){(uintptr_t)block / PAGE * PAGE,
                                           ((uintptr_t)block + size + PAGE - 1) / PAGE * PAGE};
    pthread_mutex_unlock(&block_lock);
}

static int by_start(const void *left, const void *right)
{
    const struct block *a = left, *b = right;

    return a->start < b->start ? -1 : a->start > b->start;
}

static void print_range(const char *name, struct block range)
{
    printf("range %s %lx %lx\n", name, (unsigned long)range.start, (unsigned long)range.end);
}

static void print_ranges(const char *name)
{
    struct block whole;

    if (!block_count)
        return;
    qsort(blocks, block_count, sizeof(blocks[0]), by_start);
    whole = blocks[0];
    for (size_t i = 1; i < block_count; i++) {
        if (blocks[i].start <= whole.end) {
            whole.end = blocks[i].end > whole.end ? blocks[i].end : whole.end;
            continue;
        }
        print_range(name, whole);
        whole = blocks[i];
    }
    print_range(name, whole);
    block_count = 0;
}

static void heap_step(const char *name, size_t bytes, size_t chunk)
{
    for (size_t done = 0; done < bytes; done += chunk)
        keep(malloc(chunk), chunk);
    print_ranges(name);
}

static void wait_forever(void)
{
    for (;;)
        pause();
}

static void *idle_thread(void *unused)
{
    (void)unused;
    if (thread_bytes)
        keep(malloc(thread_bytes), thread_bytes);
    pthread_barrier_wait(&touched);
    wait_forever();
    return NULL;
}

static void *busy_thread(void *unused)
{
    (void)unused;
    for (volatile uint64_t i = 0;; i++)
        ;
    return NULL;
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/*
 * The threads of all processes begin at the same time, so that they wait for CPUs as threads that
 * always compute do, and the host's CPUs have time for other tests.
 */
static void *bursts_thread(void *unused)
{
    (void)unused;
    for (;;) {
        const uint64_t begin = (now_ns(CLOCK_MONOTONIC) / BURST_NS + 1) * BURST_NS;
        const struct timespec at = {(time_t)(begin / SECOND), (long)(begin % SECOND)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        const uint64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + BURST_NS / 10;
        while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
            for (volatile unsigned i = 0; i < 10000; i++)
                ;
    }
    return NULL;
}

static void *pinned_thread(void *list)
{
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    CPU_SET((size_t)atoi(list), &cpus);
    if (pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus))
        fail("pthread_setaffinity_np", list, errno);
    pthread_barrier_wait(&touched);
    wait_forever();
    return NULL;
}

static void start(void *(*run)(void *), void *arg, unsigned count)
{
    pthread_t thread;
    int error;

    for (unsigned i = 0; i < count; i++) {
        error = pthread_create(&thread, NULL, run, arg);
        if (error)
            fail("pthread_create", "", error);
    }
}

static void start_and_wait(void *(*run)(void *), void *arg, unsigned count)
{
    pthread_barrier_init(&touched, NULL, count + 1);
    start(run, arg, count);
    pthread_barrier_wait(&touched);
}

static unsigned starts, started;

static void *waiting_thread(void *unused)
{
    (void)unused;
    wait_forever();
    return NULL;
}

static void *making_thread(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < starts; i++) {
        start(waiting_thread, NULL, 1);
        __atomic_add_fetch(&started, 1, __ATOMIC_RELEASE);
    }
    wait_forever();
    return NULL;
}

static void pin_step(const char *list)
{
    cpu_set_t cpus;
    char *after;

    CPU_ZERO(&cpus);
    for (const char *at = list; *at; at = after + (*after == ','))
        CPU_SET(strtoul(at, &after, 10), &cpus);
    if (sched_setaffinity(0, sizeof(cpus), &cpus))
        fail("sched_setaffinity", list, errno);
}

static void *driver(const char *name)
{
    static void *library;
    void *function;

    if (!library)
        library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "program: %s\n", dlerror());
        exit(1);
    }
    function = dlsym(library, name);
    if (!function)
        fail("dlsym", name, 0);
    return function;
}

static void init_step(void)
{
    int (*init)(unsigned) = driver("cuInit");
    const bool is_off = getenv("GPUFEED") && !strcmp(getenv("GPUFEED"), "off");
    int error = init(0);

    if (error)
        fail("cuInit", "", error);
    /* On a busy machine, the library loads its engine after cuInit has returned. */
    for (int i = 0; gpufeed_active && !is_off && !gpufeed_active() && i < 3000; i++)
        usleep(10000);
}

static void ctx_step(int device)
{
    int (*retain)(void **, int) = driver("cuDevicePrimaryCtxRetain");
    int (*set_current)(void *) = driver("cuCtxSetCurrent");
    void *context;
    int error = retain(&context, device);

    if (!error)
        error = set_current(context);
    if (error)
        fail("context", "", error);
}

static void mem_step(int device, size_t bytes)
{
    int (*alloc)(uint64_t *, size_t) = driver("cuMemAlloc_v2");
    uint64_t pointer;
    int error;

    ctx_step(device);
    error = alloc(&pointer, bytes);
    if (error)
        fail("cuMemAlloc_v2", "", error);
}

static void pinmem_step(const char *name, int device, size_t bytes)
{
    int (*alloc)(void **, size_t, unsigned) = driver("cuMemHostAlloc");
    void *pointer;
    int error;

    ctx_step(device);
    error = alloc(&pointer, bytes, 0);
    if (error)
        fail("cuMemHostAlloc", "", error);
    keep(pointer, bytes);
    print_ranges(name);
}

static void h2d_step(int device, size_t bytes, unsigned count)
{
    int (*alloc)(uint64_t *, size_t) = driver("cuMemAlloc_v2");
    int (*copy)(uint64_t, const void *, size_t) = driver("cuMemcpyHtoD_v2");
    char *source = malloc(bytes);
    uint64_t pointer;
    int error;

    ctx_step(device);
    error = alloc(&pointer, bytes);
    memset(source, 1, bytes);
    for (unsigned i = 0; i < count && !error; i++) {
        error = copy(pointer, source, bytes);
        usleep(20000); /* time for the library's thread to make the ring */
    }
    if (error)
        fail("cuMemcpyHtoD_v2", "", error);
}

static void say_step(const char *word)
{
    sigset_t signals;
    int signal;

    printf("at %s %d\n", word, (int)getpid());
    fflush(stdout);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigwait(&signals, &signal);
}

static void vfork_step(char *const argv[])
{
    const pid_t pid = vfork();

    if (pid == 0) {
        execve("/no/such/file", argv, environ); /* a failed exec is undone */
        execve(argv[0], argv, environ);
        _exit(127);
    }
    if (pid < 0)
        fail("vfork", "", errno);
}

static void start_step(const char *way, char *word)
{
    char name[] = "/vm/program", say[] = "say", command[128];
    char *const argv[] = {name, say, word, NULL};
    FILE *volatile pipe = NULL; /* never closed, because pclose waits */
    pid_t pid;

    fflush(stdout);
    snprintf(command, sizeof(command), "exec %s say %s", name, word);
    if (!strcmp(way, "vfork"))
        vfork_step(argv);
    else if (!strcmp(way, "posix_spawn") && posix_spawn(&pid, name, NULL, NULL, argv, environ))
        fail(way, word, errno);
    else if (!strcmp(way, "popen") && !(pipe = popen(command, "w")))
        fail(way, word, errno);
    else if (!strcmp(way, "system") && system(command))
        fail(way, word, errno);
}

static char **run(char **step);

static char **fork_step(char **step)
{
    unsigned depth = 1;

    fflush(stdout);
    for (int i = 0, count = atoi(*step++); i < count; i++) {
        pid_t pid = fork();

        if (pid < 0)
            fail("fork", "", errno);
        if (pid == 0) {
            run(step);
            fflush(stdout);
            _exit(0);
        }
    }
    for (; *step && depth; step++)
        depth += !strcmp(*step, "fork") - !strcmp(*step, "end");
    return step;
}

static char **run(char **step)
{
    while (*step) {
        const char *word = *step++;

        if (!strcmp(word, "end")) {
            return step;
        } else if (!strcmp(word, "heap")) {
            heap_step(step[0], strtoul(step[1], NULL, 10), strtoul(step[2], NULL, 10));
            step += 3;
        } else if (!strcmp(word, "threads")) {
            thread_bytes = strtoul(step[2], NULL, 10);
            start_and_wait(idle_thread, NULL, (unsigned)atoi(step[1]));
            print_ranges(step[0]);
            step += 3;
        } else if (!strcmp(word, "busy")) {
            start(busy_thread, NULL, (unsigned)atoi(*step++));
        } else if (!strcmp(word, "bursts")) {
            start(bursts_thread, NULL, (unsigned)atoi(*step++));
        } else if (!strcmp(word, "starts")) {
            starts = (unsigned)atoi(*step++);
            start(making_thread, NULL, 1);
        } else if (!strcmp(word, "started")) {
            while (__atomic_load_n(&started, __ATOMIC_ACQUIRE) < starts)
                usleep(1000);
        } else if (!strcmp(word, "pinned")) {
            start_and_wait(pinned_thread, *step++, 1);
        } else if (!strcmp(word, "pin")) {
            pin_step(*step++);
        } else if (!strcmp(word, "init")) {
            init_step();
        } else if (!strcmp(word, "ctx")) {
            ctx_step(atoi(*step++));
        } else if (!strcmp(word, "mem")) {
            mem_step(atoi(step[0]), strtoul(step[1], NULL, 10));
            step += 2;
        } else if (!strcmp(word, "pinmem")) {
            pinmem_step(step[0], atoi(step[1]), strtoul(step[2], NULL, 10));
            step += 3;
        } else if (!strcmp(word, "h2d")) {
            h2d_step(atoi(step[0]), strtoul(step[1], NULL, 10), (unsigned)atoi(step[2]));
            step += 3;
        } else if (!strcmp(word, "setenv")) {
            setenv(step[0], step[1], 1);
            step += 2;
        } else if (!strcmp(word, "fork")) {
            step = fork_step(step);
        } else if (!strcmp(word, "sleep")) {
            usleep((useconds_t)atoi(*step++) * 1000);
        } else if (!strcmp(word, "say")) {
            say_step(*step++);
        } else if (!strcmp(word, "start")) {
            start_step(step[0], step[1]);
            step += 2;
        } else if (!strcmp(word, "exec")) {
            fflush(stdout);
            execv(step[0], step);
            fail("execv", step[0], errno);
        } else {
            fail("unknown step", word, 0);
        }
    }
    return step;
}

int main(int argc, char **argv)
{
    sigset_t signals;

    (void)argc;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    run(argv + 1);
    fflush(stdout);
    while (wait(NULL) > 0)
        ;
    return 0;
}
