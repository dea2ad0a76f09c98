/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_users KIND: a function uses 22 KiB of a stack of 32 KiB, then allocates and frees. libc or
 * the program starts its thread:
 *   attr      pthread_create with attributes
 *   default   pthread_create without attributes, after pthread_setattr_default_np
 *   c11       thrd_create, after the same
 *   limit     pthread_create without attributes, under `ulimit -s 32`
 *   timer, aio, mq, name   SIGEV_THREAD of timer_create, aio_read, mq_notify, getaddrinfo_a
 *   sizes     no thread: the functions that read attributes return what was set
 */
#include <aio.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { STACK = 32 << 10, USED = 22 << 10 };
static volatile int done;

__attribute__((noinline)) static void allocate(void)
{
    for (int i = 0; i < 40; i++) {
        void *block = calloc(1, (size_t)i * 9000 + 1);
        block = realloc(block, (size_t)i * 20000 + 1);
        free(block);
    }
    free(aligned_alloc(4096, 8192));
}

__attribute__((noinline)) static void use(void)
{
    volatile char own[USED];
    memset((char *)own, 1, sizeof(own));
    allocate();
    own[0] = 2;
    done = 1;
}

static void *run(void *arg)
{
    use();
    return arg;
}
static int run_c11(void *arg)
{
    (void)arg;
    use();
    return 0;
}
static void notify(union sigval value)
{
    (void)value;
    use();
}

static int join(const pthread_attr_t *attr)
{
    pthread_t thread;
    return pthread_create(&thread, attr, run, NULL) || pthread_join(thread, NULL);
}

static int start_c11(void)
{
    thrd_t thread;
    return thrd_create(&thread, run_c11, NULL) != thrd_success ||
           thrd_join(thread, NULL) != thrd_success;
}

static int limit(char **argv)
{
    struct rlimit stack;
    getrlimit(RLIMIT_STACK, &stack);
    if (stack.rlim_cur == STACK)
        return join(NULL);
    stack.rlim_cur = STACK;
    setrlimit(RLIMIT_STACK, &stack);
    return execv("/proc/self/exe", argv);
}

static int start_timer(struct sigevent *event)
{
    const struct itimerspec soon = {.it_value.tv_nsec = 1};
    timer_t timer;
    return timer_create(CLOCK_MONOTONIC, event, &timer) || timer_settime(timer, 0, &soon, NULL);
}

static int start_read(struct sigevent *event)
{
    static struct aiocb read;
    static char byte;
    read = (struct aiocb){.aio_fildes = open("/proc/self/exe", O_RDONLY),
                          .aio_buf = &byte,
                          .aio_nbytes = 1,
                          .aio_sigevent = *event};
    return aio_read(&read);
}

static int start_message(struct sigevent *event)
{
    char name[64];
    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 8};
    snprintf(name, sizeof(name), "/gpufeed-test-%d", getpid());
    const mqd_t queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attr);
    if (queue < 0)
        return 77;
    mq_unlink(name);
    return mq_notify(queue, event) || mq_send(queue, "x", 1, 0);
}

static int find_name(struct sigevent *event)
{
    static struct gaicb request = {.ar_name = "127.0.0.1"};
    struct gaicb *list[] = {&request};
    return getaddrinfo_a(GAI_NOWAIT, list, 1, event);
}

static int sizes(pthread_attr_t *attr)
{
    static char memory[64 << 10] __attribute__((aligned(4096)));
    const size_t all[] = {STACK,       PTHREAD_STACK_MIN, 100 << 10,      (1 << 20) - 64,
                          1 << 20,     8 << 20,           100000,         123456 + 13,
                          1 << 20 | 7, (100 << 10) + 1,   (1 << 20) - 63, (8 << 20) + 1,
                          SIZE_MAX,    SIZE_MAX - 62,     SIZE_MAX / 2};
    void *start;
    size_t size;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (pthread_attr_setstacksize(attr, all[i]) || pthread_attr_getstacksize(attr, &size) ||
            size != all[i] || pthread_attr_getstack(attr, &start, &size) || size != all[i] ||
            (uintptr_t)start + size != 0)
            return 1;
    if (pthread_attr_setstacksize(attr, 100) == 0 ||
        pthread_attr_setstack(attr, memory, sizeof(memory)) ||
        pthread_attr_setstacksize(attr, STACK) || pthread_attr_getstacksize(attr, &size) ||
        size != STACK)
        return 2;
    pthread_attr_init(attr);
    if (pthread_attr_setstacksize(attr, sizeof(memory)) ||
        pthread_attr_setstackaddr(attr, memory + sizeof(memory)) ||
        pthread_attr_getstacksize(attr, &size) || size != sizeof(memory) ||
        pthread_attr_getstack(attr, &start, &size) || start != memory || size != sizeof(memory))
        return 3;
    /* Without a size, getstack returns none, and getstacksize the default. */
    pthread_attr_init(attr);
    pthread_attr_setstacksize(attr, STACK);
    pthread_setattr_default_np(attr);
    pthread_attr_init(attr);
    if (pthread_attr_setstackaddr(attr, memory + sizeof(memory)) ||
        pthread_attr_getstack(attr, &start, &size) || start != memory + sizeof(memory) || size ||
        pthread_attr_getstacksize(attr, &size) || size != STACK)
        return 4;
    return 0;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    pthread_attr_t attr;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD,
                             .sigev_notify_function = notify,
                             .sigev_notify_attributes = &attr};
    int error = 1;
    pthread_attr_init(&attr);
    if (strcmp(kind, "sizes") == 0)
        return sizes(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    if (strcmp(kind, "default") == 0 || strcmp(kind, "c11") == 0)
        pthread_setattr_default_np(&attr);
    if (strcmp(kind, "attr") == 0)
        error = join(&attr);
    else if (strcmp(kind, "default") == 0)
        error = join(NULL);
    else if (strcmp(kind, "c11") == 0)
        error = start_c11();
    else if (strcmp(kind, "limit") == 0)
        error = limit(argv);
    else if (strcmp(kind, "timer") == 0)
        error = start_timer(&event);
    else if (strcmp(kind, "aio") == 0)
        error = start_read(&event);
    else if (strcmp(kind, "mq") == 0)
        error = start_message(&event);
    else if (strcmp(kind, "name") == 0)
        error = find_name(&event);
    for (int i = 0; !error && i < 2000 && !done; i++)
        usleep(5000);
    return error ? error : !done;
}
