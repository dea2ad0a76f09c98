/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/heap/arenas.h"
#include "preload/heap/reclaim.h"
#include "preload/heap/fork.h"
#include "preload/heap/jemalloc.h"
#include "preload/heap/mappings.h"

#include <gnu/libc-version.h>
#include <string.h>
#include <time.h>

/* These replace jemalloc and the rest of the heap. */
static unsigned arenas_reset;

void gf_arenas_in_child(void)
{
    arenas_reset++;
}

static bool may_lock; /* in a child */

void gf_reclaim_in_child(void)
{
    may_lock = !gf_locks;
}

static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*before_locks)(void); /* runs once, when a fork is about to take the locks */

static void prepare(void)
{
    void (*const act)(void) = before_locks;

    before_locks = NULL;
    if (act)
        act();
    gf_heap_mutex_lock(&heap_lock);
}

static void release(void)
{
    gf_heap_mutex_unlock(&heap_lock);
}

static void make_anew(void)
{
    pthread_mutex_init(&heap_lock, NULL);
}

static pthread_t start(void *(*run)(void *))
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
    return thread;
}

static void *register_one(void *arg)
{
    gf_fork_registration_begin();
    gf_fork_registration_end();
    return arg;
}

/* A child that hangs is killed, and the test fails. */
static void fork_and(void (*act)(void))
{
    int status;
    const pid_t child = fork();

    if (child == 0) {
        alarm(25);
        act();
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/*
 * Returns whether a registration in another thread waits. That thread continues when this thread
 * has finished its own registration.
 */
static bool others_wait(unsigned seconds)
{
    const pthread_t other = start(register_one);
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    if (pthread_timedjoin_np(other, NULL, &until) == 0)
        return false;
    pthread_detach(other);
    return true;
}

/*
 * Before glibc 2.36, handlers run with libc's lock held. Then registrations need no lock of the
 * library.
 */
static bool handlers_run_unlocked(void)
{
    return strverscmp(gnu_get_libc_version(), "2.36") >= 0;
}

/*
 * Without the library's handlers, a child would inherit a locked lock. So a registration takes no
 * lock if another malloc serves the program, or before the heap has registered its handlers.
 */
static void test_no_lock_without_our_handlers(void **state)
{
    (void)state;
    gf_fork_registration_begin();
    assert_false(others_wait(60));
    assert_int_equal(gf_heap_atfork(prepare, release, make_anew), 0);
    gf_fork_registration_end();
    gf_fork_registration_begin();
    assert_int_equal(others_wait(handlers_run_unlocked() ? 1 : 60), handlers_run_unlocked());
    gf_fork_registration_end();
    assert_false(others_wait(60));
}

static pthread_t registrant;

/* Runs during a fork. */
static void come_between(void)
{
    registrant = start(register_one);
    usleep(30000);
}

static void register_in_child(void)
{
    /* The child would inherit the lock of a thread that shares the main arena. */
    if (arenas_reset != 1 || !may_lock)
        _exit(1);
    register_one(NULL);
}

static void *idle(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static void test_a_registration_waits_for_a_fork(void **state)
{
    (void)state;
    start(idle);
    before_locks = come_between;
    alarm(25);
    fork_and(register_in_child);
    pthread_join(registrant, NULL);
    assert_false(others_wait(60));
    alarm(0);
}

static void come_out(void)
{
    gf_fork_registration_end();
    register_one(NULL);
}

static void test_a_signal_handler_may_fork_during_a_registration(void **state)
{
    (void)state;
    gf_fork_registration_begin();
    fork_and(come_out);
    gf_fork_registration_end();
    assert_false(others_wait(60));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First, because it registers the handlers. */
        cmocka_unit_test(test_no_lock_without_our_handlers),
        cmocka_unit_test(test_a_registration_waits_for_a_fork),
        cmocka_unit_test(test_a_signal_handler_may_fork_during_a_registration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
