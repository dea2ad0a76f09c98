/* SPDX-License-Identifier: Apache-2.0 */
/* Ideas of glibc's nptl/tst-*.c. */
#include "libc_case.h"

#include <limits.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* tst-tsd: destructors allocate, and set the key again, up to PTHREAD_DESTRUCTOR_ITERATIONS times. */
static pthread_key_t key;
static _Atomic int destroyed;

static void destroy(void *value)
{
    free(value);
    free(malloc(100000));
    destroyed++;
    if (destroyed % 3)
        pthread_setspecific(key, malloc(1000));
}

static void *use_key(void *arg)
{
    pthread_setspecific(key, malloc(10));
    return arg;
}

CASE(destructors)
{
    CHECK(pthread_key_create(&key, destroy) == 0);
    for (int round = 0; round < 100; round++)
        run_threads(1, use_key);
    printf("%d\n", destroyed);
}

/* tst-cancel: asynchronous and deferred cancellation of threads that allocate. */
static void *allocate_until_cancelled(void *arg)
{
    for (;;) {
        free(malloc((size_t)1 << (rand() & 15)));
        pthread_testcancel();
    }
    return arg;
}

static void *spin_until_cancelled(void *arg)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (volatile unsigned long i = 0;; i++)
        continue;
    return arg;
}

CASE(cancel)
{
    for (int round = 0; round < 200; round++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL,
                             round % 2 ? allocate_until_cancelled : spin_until_cancelled,
                             NULL) == 0);
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 &&
              result == PTHREAD_CANCELED);
    }
    free(malloc(1 << 20));
}

/* tst-attr, tst-stack: threads on stacks of the program, and on the smallest stacks. */
static void *return_stack(void *arg)
{
    void *block = malloc(2000);

    (void)arg;
    free(block);
    return __builtin_frame_address(0);
}

CASE(stacks)
{
    for (int round = 0; round < 40; round++) {
        pthread_attr_t attr;
        pthread_t thread;
        void *result;
        const size_t size = 64 << 10;
        char *place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        CHECK(pthread_attr_init(&attr) == 0);
        if (round % 2)
            CHECK(pthread_attr_setstack(&attr, place, size) == 0);
        else
            CHECK(pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN) == 0);
        CHECK(pthread_create(&thread, &attr, return_stack, NULL) == 0 &&
              pthread_join(thread, &result) == 0);
        if (round % 2)
            CHECK((char *)result > place && (char *)result < place + size);
        pthread_attr_destroy(&attr);
        munmap(place, size);
    }
}

/* tst-getpid, tst-setuid: each thread sees the process's ids; a thread's own ID is the kernel's. */
static void *see_ids(void *arg)
{
    CHECK(getpid() == syscall(SYS_getpid) && gettid() == syscall(SYS_gettid) &&
          gettid() != getpid());
    CHECK(setresuid(getuid(), geteuid(), geteuid()) == 0);
    return arg;
}

CASE(ids)
{
    for (int round = 0; round < 20; round++)
        run_threads(8, see_ids);
}

/* tst-signal: handlers run on their alternate stack. They do not allocate. */
static volatile sig_atomic_t on_alternate;
static char alternate[65536];

static void look_at_stack(int number)
{
    char here;

    (void)number;
    on_alternate += &here > alternate && &here < alternate + sizeof(alternate);
}

CASE(alternate_stack)
{
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
    const struct sigaction action = {.sa_handler = look_at_stack, .sa_flags = SA_ONSTACK};

    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 100; i++) {
        free(malloc(1000));
        raise(SIGUSR1);
    }
    CHECK(on_alternate == 100);
}

/* tst-affinity: a mask that was set is read back, for a thread and for the process. */
static void *set_mask(void *arg)
{
    cpu_set_t mask, read;

    CHECK(pthread_getaffinity_np(pthread_self(), sizeof(mask), &mask) == 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &mask)) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            CHECK(pthread_setaffinity_np(pthread_self(), sizeof(one), &one) == 0);
            CHECK(pthread_getaffinity_np(pthread_self(), sizeof(read), &read) == 0 &&
                  CPU_EQUAL(&one, &read));
        }
    return arg;
}

CASE(affinity)
{
    cpu_set_t before, after;

    CHECK(sched_getaffinity(0, sizeof(before), &before) == 0);
    run_threads(8, set_mask);
    CHECK(sched_getaffinity(0, sizeof(after), &after) == 0 && CPU_EQUAL(&before, &after));
}

/* tst-sem, tst-cond, tst-barrier, tst-rwlock: threads use all of these together. */
static pthread_barrier_t barrier;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static long counter;

static void *meet(void *arg)
{
    for (int round = 0; round < 50; round++) {
        pthread_barrier_wait(&barrier);
        pthread_rwlock_wrlock(&lock);
        counter++;
        pthread_rwlock_unlock(&lock);
        sem_post(&semaphore);
        sem_wait(&semaphore);
    }
    return arg;
}

CASE(meetings)
{
    CHECK(pthread_barrier_init(&barrier, NULL, 8) == 0 && sem_init(&semaphore, 0, 0) == 0);
    run_threads(8, meet);
    printf("%ld\n", counter);
}

/* tst-thread-exit-clobber, tst-detach: threads that end while the process does. */
static void *allocate_for_ever(void *arg)
{
    for (;;)
        free(malloc((size_t)1 << (rand() & 17)));
    return arg;
}

CASE(exit_beside_threads)
{
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, allocate_for_ever, NULL) == 0 &&
              pthread_detach(thread) == 0);
    }
    usleep(50000);
    puts("ends");
    exit(3);
}

/* The main thread ends by pthread_exit. */
static void *end_later(void *arg)
{
    usleep(20000);
    puts("the last thread");
    fflush(stdout);
    exit(4);
    return arg;
}

CASE(main_exits_first)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, end_later, NULL) == 0);
    pthread_exit(NULL);
}
