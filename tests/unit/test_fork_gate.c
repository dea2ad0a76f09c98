/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fork_gate_kit.h"
#include "fork_gate_seam.h"

#define WRITERS 2

static unsigned barriers; /* membarrier calls; atomic */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* Passes on the six arguments that a system call can have. */
long __wrap_syscall(long number, ...)
{
    va_list list;
    long arg[6];

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_membarrier)
        __atomic_add_fetch(&barriers, 1, __ATOMIC_SEQ_CST);
    return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

void before_shared_add(const void *word)
{
    (void)word;
}

static __thread bool stops; /* this thread stops at its next store */
static bool stopped, may_go_on;

void before_store(void)
{
    if (!stops)
        return;
    stops = false;
    __atomic_store_n(&stopped, true, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&may_go_on, __ATOMIC_SEQ_CST))
        usleep(1000);
}

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;

static void *lock_and_arrive(void *unused)
{
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    arrive();
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    return unused;
}

/* Runs before gf_fork_gate_allow, which a process calls only once: the gate cannot be closed yet. */
static void test_refused(void **state)
{
    (void)state;
    assert_false(gf_fork_gate_close());
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
}

static void test_closing_waits_for_threads_inside(void **state)
{
    bool open = true;

    NEEDS_BARRIER(state);
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    pthread_t closer = start(close_and_open, &open);
    give_time();
    assert_false(have_arrived(1));
    assert_int_equal(gf_heap_mutex_trylock(&inner),
                     0); /* inside a lock, while another thread closes the gate */
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    give_time();
    assert_false(have_arrived(1));
    assert_int_equal(gf_heap_mutex_unlock(&inner), 0);
    wait_until_arrived(1);
    pthread_join(closer, NULL);
}

static void test_no_thread_enters_a_closed_gate(void **state)
{
    bool open = false;

    NEEDS_BARRIER(state);
    pthread_t closer = start(close_and_open, &open);
    wait_until_arrived(1);
    assert_int_equal(gf_heap_mutex_trylock(&outer), EBUSY);
    pthread_t other = start(lock_and_arrive, NULL);
    give_time();
    assert_false(have_arrived(2));
    assert_int_equal(pthread_mutex_trylock(&outer),
                     0); /* the thread does not hold the lock either */
    pthread_mutex_unlock(&outer);
    __atomic_store_n(&open, true, __ATOMIC_SEQ_CST);
    wait_until_arrived(2);
    pthread_join(closer, NULL);
    pthread_join(other, NULL);
    assert_int_equal(gf_heap_mutex_trylock(&outer), 0);
    assert_int_equal(gf_heap_mutex_trylock(&outer),
                     EBUSY); /* a failed trylock returns pthread's error, and leaves the gate */
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    assert_true(gf_fork_gate_close());
    gf_fork_gate_open();
}

static void *stop_and_lock(void *unused)
{
    stops = true;
    return lock_and_arrive(unused);
}

/* The thread stops after it has seen the open gate, and before it writes that it is inside. */
static void test_a_thread_checks_again_after_its_store(void **state)
{
    NEEDS_BARRIER(state);
    pthread_t other = start(stop_and_lock, NULL);
    while (!__atomic_load_n(&stopped, __ATOMIC_SEQ_CST))
        usleep(1000);
    assert_true(gf_fork_gate_close());
    __atomic_store_n(&may_go_on, true, __ATOMIC_SEQ_CST);
    give_time();
    assert_false(have_arrived(1));
    assert_int_equal(pthread_mutex_trylock(&outer), 0);
    pthread_mutex_unlock(&outer);
    gf_fork_gate_open();
    wait_until_arrived(1);
    pthread_join(other, NULL);
}

/*
 * Without a barrier, another CPU's store may still be in its store buffer. No test can provoke
 * that, so the calls are counted.
 */
static void test_each_closing_is_a_barrier(void **state)
{
    NEEDS_BARRIER(state);
    const unsigned before = barriers;
    for (unsigned i = 1; i < 4; i++) {
        assert_true(gf_fork_gate_close());
        assert_int_equal(barriers, before + i);
        gf_fork_gate_open();
    }
}

static void test_the_closing_thread_may_enter(void **state)
{
    NEEDS_BARRIER(state);
    errno = 7;
    assert_true(gf_fork_gate_close());
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    assert_int_equal(gf_heap_mutex_trylock(&inner), 0);
    assert_int_equal(gf_heap_mutex_unlock(&inner), 0);
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    gf_fork_gate_open();
    assert_int_equal(errno, 7);
}

static void test_a_second_closing_waits_for_the_first(void **state)
{
    bool open = false, at_once = true;

    NEEDS_BARRIER(state);
    pthread_t first = start(close_and_open, &open);
    wait_until_arrived(1);
    pthread_t second = start(close_and_open, &at_once);
    give_time();
    assert_false(have_arrived(2));
    __atomic_store_n(&open, true, __ATOMIC_SEQ_CST);
    wait_until_arrived(2);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
}

static bool go_on;

static void test_thread_that_has_nearly_ended(void **state)
{
    NEEDS_BARRIER(state);
    waits_for_all(1, &go_on);
}

static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void *wait_for_signal(void *until)
{
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    arrive();
    const int error =
        until ? gf_heap_cond_timedwait(&cond, &outer, until) : gf_heap_cond_wait(&cond, &outer);
    assert_true(!error || error == ETIMEDOUT);
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    return NULL;
}

static void test_a_thread_is_outside_while_it_waits_on_a_condition(void **state)
{
    const struct timespec past = {0};

    NEEDS_BARRIER(state);
    pthread_t waiter = start(wait_for_signal, NULL);
    wait_until_arrived(1);
    assert_true(gf_fork_gate_close());
    gf_fork_gate_open();
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    pthread_cond_signal(&cond);
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    pthread_join(waiter, NULL);
    pthread_join(start(wait_for_signal, (void *)(uintptr_t)&past), NULL);
}

static void *hold_and_want(void *unused)
{
    assert_int_equal(gf_heap_mutex_lock(&inner), 0);
    arrive();
    while (!__atomic_load_n(&go_on, __ATOMIC_SEQ_CST))
        usleep(1000);
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    assert_int_equal(gf_heap_mutex_unlock(&inner), 0);
    return unused;
}

/*
 * A thread waits on a condition, and is signalled while another thread closes the gate. The closing
 * thread waits for a third thread, which is inside and needs the mutex of the condition.
 */
static void test_a_signalled_thread_releases_its_mutex_before_it_waits(void **state)
{
    bool open = true;

    NEEDS_BARRIER(state);
    go_on = false;
    pthread_t waiter = start(wait_for_signal, NULL);
    wait_until_arrived(1);
    /* The thread releases the mutex when it waits on the condition. */
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    pthread_t insider = start(hold_and_want, NULL);
    wait_until_arrived(2);
    pthread_t closer = start(close_and_open, &open);
    give_time();
    assert_false(have_arrived(3));
    pthread_cond_signal(&cond);
    give_time();
    __atomic_store_n(&go_on, true, __ATOMIC_SEQ_CST);
    wait_until_arrived(3);
    pthread_join(closer, NULL);
    pthread_join(insider, NULL);
    pthread_join(waiter, NULL);
}

/*
 * Tests the child of a thread that closed the gate, and the child of a thread that took the locks.
 */
static void test_in_a_child(void **state)
{
    NEEDS_BARRIER(state);
    for (int locked = 0; locked < 2; locked++) {
        int status = 1;
        pthread_t other = 0;
        pthread_mutex_lock(&held);
        count = 0;
        if (locked) { /* in the child, a lock that another thread held is free */
            assert_int_equal(gf_heap_mutex_lock(&inner), 0);
            other = start(hold_one, NULL);
            wait_until_arrived(1);
        } else {
            assert_true(gf_fork_gate_close());
        }
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            gf_fork_gate_in_child();
            gf_fork_gate_allow();
            const bool passed =
                gf_heap_mutex_trylock(&outer) == 0 && gf_heap_mutex_unlock(&outer) == 0;
            bool did = gf_fork_gate_close();
            const pid_t inner_child = did ? fork() : -1;
            if (inner_child == 0)
                gf_fork_gate_in_child();
            else
                gf_fork_gate_open();
            const bool again = gf_fork_gate_close();
            gf_fork_gate_open();
            if (inner_child == 0)
                _exit(again ? 0 : 3);
            int inner_status = 1;
            did = did && again && waitpid(inner_child, &inner_status, 0) == inner_child &&
                  inner_status == 0;
            _exit(passed && did ? 0 : 2);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        pthread_mutex_unlock(&held);
        if (locked) {
            gf_heap_mutex_unlock(&inner);
            pthread_join(other, NULL);
        } else {
            gf_fork_gate_open();
        }
    }
}

/* Two numbers that are equal whenever their writer is outside the gate. */
static struct pair {
    _Alignas(64) unsigned a, b;
} pairs[WRITERS];

static void *write_pairs(void *pair)
{
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    struct pair *mine = pair;

    while (!__atomic_load_n(&go_on, __ATOMIC_RELAXED)) {
        if (gf_heap_mutex_trylock(&own))
            gf_heap_mutex_lock(&own);
        __atomic_store_n(&mine->a, mine->a + 1, __ATOMIC_RELAXED);
        __atomic_store_n(&mine->b, mine->b + 1, __ATOMIC_RELAXED);
        gf_heap_mutex_unlock(&own);
    }
    return NULL;
}

static unsigned read_now(const unsigned *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void test_nothing_changes_while_the_gate_is_closed(void **state)
{
    pthread_t thread[WRITERS];

    NEEDS_BARRIER(state);
    go_on = false;
    for (int i = 0; i < WRITERS; i++)
        thread[i] = start(write_pairs, &pairs[i]);
    for (int times = 0; times < 3000; times++) {
        assert_true(gf_fork_gate_close());
        for (int i = 0; i < WRITERS; i++) {
            const unsigned a = read_now(&pairs[i].a);
            assert_int_equal(a, read_now(&pairs[i].b));
            for (int again = 0; again < 50; again++)
                assert_int_equal(a, read_now(&pairs[i].a));
        }
        gf_fork_gate_open();
    }
    __atomic_store_n(&go_on, true, __ATOMIC_RELAXED);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(thread[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test_setup(test_closing_waits_for_threads_inside, allow),
        cmocka_unit_test_setup(test_no_thread_enters_a_closed_gate, allow),
        cmocka_unit_test_setup(test_a_thread_checks_again_after_its_store, allow),
        cmocka_unit_test_setup(test_each_closing_is_a_barrier, allow),
        cmocka_unit_test_setup(test_the_closing_thread_may_enter, allow),
        cmocka_unit_test_setup(test_a_second_closing_waits_for_the_first, allow),
        cmocka_unit_test_setup(test_thread_that_has_nearly_ended, allow),
        cmocka_unit_test_setup(test_a_thread_is_outside_while_it_waits_on_a_condition, allow),
        cmocka_unit_test_setup(test_a_signalled_thread_releases_its_mutex_before_it_waits, allow),
        cmocka_unit_test_setup(test_in_a_child, allow),
        cmocka_unit_test_setup(test_nothing_changes_while_the_gate_is_closed, allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
