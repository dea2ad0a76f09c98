/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where a thread of this file stops on its way through, before it writes that it is inside; and what the kernel is asked. */
static void before_store(void);
static unsigned barriers; /* atomic */
#define __atomic_store_n(word, value, order) (before_store(), __atomic_store_n(word, value, order))
#define syscall(number, ...) (__atomic_add_fetch(&barriers, (number) == SYS_membarrier, 5), syscall(number, __VA_ARGS__))
#include "heap/gate.c"
#undef __atomic_store_n
#undef syscall

#define BEYOND 600 /* more than there are slots */
#define WRITERS 2

/* jemalloc's own, of a thread that ends. */
void __real_je_witnesses_cleanup(void *tsd);
void __real_je_witnesses_cleanup(void *tsd)
{
    (void)tsd;
}

static bool can_close;
static unsigned count; /* of those who have come to some place */

static void come(void)
{
    __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
}

static bool have_come(unsigned wanted)
{
    return __atomic_load_n(&count, __ATOMIC_SEQ_CST) >= wanted;
}

static void wait_until_come(unsigned wanted)
{
    for (int i = 0; !have_come(wanted); i++, usleep(1000))
        assert_true(i < 20000);
}

/* What should not happen has had the time to. */
static void give_time(void)
{
    usleep(30000);
}

static pthread_t start(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
    return thread;
}

static __thread bool stops; /* this thread, at its next store */
static bool stopped, may_go_on;

static void before_store(void)
{
    if (!stops)
        return;
    stops = false;
    __atomic_store_n(&stopped, true, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&may_go_on, __ATOMIC_SEQ_CST))
        usleep(1000);
}

static void *close_and_open(void *open)
{
    assert_true(gf_gate_close());
    come();
    while (!__atomic_load_n((bool *)open, __ATOMIC_SEQ_CST))
        usleep(1000);
    gf_gate_open();
    return NULL;
}

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;

static void *lock_and_come(void *unused)
{
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    come();
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    return unused;
}

/* Before it is allowed, once in this process. */
static void test_refused(void **state)
{
    (void)state;
    assert_false(gf_gate_close());
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
}

static int allow(void **state)
{
    (void)state;
    count = 0;
    gf_gate_allow();
    can_close = gf_gate_close();
    if (can_close)
        gf_gate_open();
    return 0;
}

#define NEEDS_BARRIER(state)                                                                       \
    (void)(state);                                                                                 \
    if (!can_close)                                                                                \
    skip_because("the kernel refuses membarrier")

static void test_waits_for_who_is_inside(void **state)
{
    bool open = true;

    NEEDS_BARRIER(state);
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    pthread_t closer = start(close_and_open, &open);
    give_time();
    assert_false(have_come(1));
    assert_int_equal(gf_heap_mutex_trylock(&inner), 0); /* within a lock, while it is being closed */
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    give_time();
    assert_false(have_come(1));
    assert_int_equal(gf_heap_mutex_unlock(&inner), 0);
    wait_until_come(1);
    pthread_join(closer, NULL);
}

static void test_nobody_goes_in(void **state)
{
    bool open = false;

    NEEDS_BARRIER(state);
    pthread_t closer = start(close_and_open, &open);
    wait_until_come(1);
    assert_int_equal(gf_heap_mutex_trylock(&outer), EBUSY);
    pthread_t other = start(lock_and_come, NULL);
    give_time();
    assert_false(have_come(2));
    assert_int_equal(pthread_mutex_trylock(&outer), 0); /* nor has it taken the lock */
    pthread_mutex_unlock(&outer);
    __atomic_store_n(&open, true, __ATOMIC_SEQ_CST);
    wait_until_come(2);
    pthread_join(closer, NULL);
    pthread_join(other, NULL);
    assert_int_equal(gf_heap_mutex_trylock(&outer), 0);
    assert_int_equal(gf_heap_mutex_trylock(&outer), EBUSY); /* as pthread's: and it is left again */
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    assert_true(gf_gate_close());
    gf_gate_open();
}

static void *stop_and_lock(void *unused)
{
    stops = true;
    return lock_and_come(unused);
}

/* It had seen the gate open, and had not said so yet. */
static void test_who_looked_before_looks_again(void **state)
{
    NEEDS_BARRIER(state);
    pthread_t other = start(stop_and_lock, NULL);
    while (!__atomic_load_n(&stopped, __ATOMIC_SEQ_CST))
        usleep(1000);
    assert_true(gf_gate_close());
    __atomic_store_n(&may_go_on, true, __ATOMIC_SEQ_CST);
    give_time();
    assert_false(have_come(1));
    assert_int_equal(pthread_mutex_trylock(&outer), 0);
    pthread_mutex_unlock(&outer);
    gf_gate_open();
    wait_until_come(1);
    pthread_join(other, NULL);
}

/* Without, a store of another CPU may be on its way still: no test meets that, but each closing must rule it out. */
static void test_each_closing_is_a_barrier(void **state)
{
    NEEDS_BARRIER(state);
    const unsigned before = barriers;
    for (unsigned i = 1; i < 4; i++) {
        assert_true(gf_gate_close());
        assert_int_equal(barriers, before + i);
        gf_gate_open();
    }
}

static void test_who_closes_goes_in(void **state)
{
    NEEDS_BARRIER(state);
    errno = 7;
    assert_true(gf_gate_close());
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    assert_int_equal(gf_heap_mutex_trylock(&inner), 0);
    assert_int_equal(gf_heap_mutex_unlock(&inner), 0);
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    gf_gate_open();
    assert_int_equal(errno, 7);
}

static void test_one_closes_after_the_other(void **state)
{
    bool open = false, at_once = true;

    NEEDS_BARRIER(state);
    pthread_t first = start(close_and_open, &open);
    wait_until_come(1);
    pthread_t second = start(close_and_open, &at_once);
    give_time();
    assert_false(have_come(2));
    __atomic_store_n(&open, true, __ATOMIC_SEQ_CST);
    wait_until_come(2);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
}

static bool go_on;

static void *hold_one(void *forget)
{
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

    if (forget) {
        assert_int_equal(gf_heap_mutex_lock(&own), 0);
        assert_int_equal(gf_heap_mutex_unlock(&own), 0);
        gf_gate_forget();
    }
    assert_int_equal(gf_heap_mutex_lock(&own), 0);
    come();
    while (!__atomic_load_n(&go_on, __ATOMIC_SEQ_CST))
        usleep(1000);
    assert_int_equal(gf_heap_mutex_unlock(&own), 0);
    return NULL;
}

static void waits_for_all(unsigned threads, void *forget)
{
    pthread_t *thread = calloc(threads, sizeof(*thread));
    bool open = true;

    go_on = false;
    for (unsigned i = 0; i < threads; i++)
        thread[i] = start(hold_one, forget);
    wait_until_come(threads);
    pthread_t closer = start(close_and_open, &open);
    give_time();
    assert_false(have_come(threads + 1));
    __atomic_store_n(&go_on, true, __ATOMIC_SEQ_CST);
    wait_until_come(threads + 1);
    pthread_join(closer, NULL);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    free(thread);
}

static void test_more_threads_than_slots(void **state)
{
    NEEDS_BARRIER(state);
    waits_for_all(BEYOND, NULL);
}

static void test_thread_that_has_nearly_ended(void **state)
{
    NEEDS_BARRIER(state);
    waits_for_all(1, &go_on);
}

static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void *wait_for_signal(void *until)
{
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    come();
    const int error = until ? gf_heap_cond_timedwait(&cond, &outer, until) : gf_heap_cond_wait(&cond, &outer);
    assert_true(!error || error == ETIMEDOUT);
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    return NULL;
}

static void test_who_waits_for_a_signal_is_outside(void **state)
{
    const struct timespec past = {0};

    NEEDS_BARRIER(state);
    pthread_t waiter = start(wait_for_signal, NULL);
    wait_until_come(1);
    assert_true(gf_gate_close());
    gf_gate_open();
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    pthread_cond_signal(&cond);
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    pthread_join(waiter, NULL);
    pthread_join(start(wait_for_signal, (void *)(uintptr_t)&past), NULL);
}

static void *hold_and_want(void *unused)
{
    assert_int_equal(gf_heap_mutex_lock(&inner), 0);
    come();
    while (!__atomic_load_n(&go_on, __ATOMIC_SEQ_CST))
        usleep(1000);
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    assert_int_equal(gf_heap_mutex_unlock(&inner), 0);
    return unused;
}

/* Woken while somebody closes it, by whom one is waited for who wants the lock that came with waking. */
static void test_who_is_signalled_keeps_no_lock(void **state)
{
    bool open = true;

    NEEDS_BARRIER(state);
    go_on = false;
    pthread_t waiter = start(wait_for_signal, NULL);
    wait_until_come(1);
    give_time(); /* until it waits */
    pthread_t insider = start(hold_and_want, NULL);
    wait_until_come(2);
    pthread_t closer = start(close_and_open, &open);
    give_time();
    assert_false(have_come(3));
    pthread_cond_signal(&cond);
    give_time();
    __atomic_store_n(&go_on, true, __ATOMIC_SEQ_CST);
    wait_until_come(3);
    pthread_join(closer, NULL);
    pthread_join(insider, NULL);
    pthread_join(waiter, NULL);
}

/* In the child of a thread that had closed it, and of one that holds locks as where it cannot be closed. */
static void test_in_a_child(void **state)
{
    NEEDS_BARRIER(state);
    for (int locked = 0; locked < 2; locked++) {
        int status = 1;
        pthread_t other = 0;
        go_on = false;
        count = 0;
        if (locked) { /* others' locks are not inherited either */
            assert_int_equal(gf_heap_mutex_lock(&inner), 0);
            other = start(hold_one, NULL);
            wait_until_come(1);
        } else {
            assert_true(gf_gate_close());
        }
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            gf_gate_in_child();
            gf_gate_allow();
            const bool passed = gf_heap_mutex_trylock(&outer) == 0 && gf_heap_mutex_unlock(&outer) == 0;
            bool did = gf_gate_close();
            const pid_t inner_child = did ? fork() : -1;
            if (inner_child == 0)
                gf_gate_in_child();
            else
                gf_gate_open();
            const bool again = gf_gate_close();
            gf_gate_open();
            if (inner_child == 0)
                _exit(again ? 0 : 3);
            int inner_status = 1;
            did = did && again && waitpid(inner_child, &inner_status, 0) == inner_child && inner_status == 0;
            _exit(passed && did ? 0 : 2);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        __atomic_store_n(&go_on, true, __ATOMIC_SEQ_CST);
        if (locked) {
            gf_heap_mutex_unlock(&inner);
            pthread_join(other, NULL);
        } else {
            gf_gate_open();
        }
    }
}

/* Two numbers each, that are the same whenever the writer is outside. */
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

static void test_nothing_changes_while_it_is_closed(void **state)
{
    pthread_t thread[WRITERS];

    NEEDS_BARRIER(state);
    go_on = false;
    for (int i = 0; i < WRITERS; i++)
        thread[i] = start(write_pairs, &pairs[i]);
    for (int times = 0; times < 3000; times++) {
        assert_true(gf_gate_close());
        for (int i = 0; i < WRITERS; i++) {
            const unsigned a = read_now(&pairs[i].a);
            assert_int_equal(a, read_now(&pairs[i].b));
            for (int again = 0; again < 50; again++)
                assert_int_equal(a, read_now(&pairs[i].a));
        }
        gf_gate_open();
    }
    __atomic_store_n(&go_on, true, __ATOMIC_RELAXED);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(thread[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test_setup(test_waits_for_who_is_inside, allow),
        cmocka_unit_test_setup(test_nobody_goes_in, allow),
        cmocka_unit_test_setup(test_who_looked_before_looks_again, allow),
        cmocka_unit_test_setup(test_each_closing_is_a_barrier, allow),
        cmocka_unit_test_setup(test_who_closes_goes_in, allow),
        cmocka_unit_test_setup(test_one_closes_after_the_other, allow),
        cmocka_unit_test_setup(test_thread_that_has_nearly_ended, allow),
        cmocka_unit_test_setup(test_who_waits_for_a_signal_is_outside, allow),
        cmocka_unit_test_setup(test_who_is_signalled_keeps_no_lock, allow),
        cmocka_unit_test_setup(test_in_a_child, allow),
        cmocka_unit_test_setup(test_nothing_changes_while_it_is_closed, allow),
        /* Last: those slots are not given back here. */
        cmocka_unit_test_setup(test_more_threads_than_slots, allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
