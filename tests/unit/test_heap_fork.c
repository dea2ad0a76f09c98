/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap/gate.c"

#include "heap/fork.c"

/* What belongs to the heap. */
void __real_je_witnesses_cleanup(void *tsd);
void __real_je_witnesses_cleanup(void *tsd)
{
    (void)tsd;
}

void gf_settings_in_child(void)
{
}

bool je_background_thread_enabled_state;
static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*before_locks)(void); /* once: a fork is about to take them */

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
    gf_heap_registers();
    gf_heap_registered();
    return arg;
}

static void *close_and_open(void *arg)
{
    if (gf_gate_close())
        gf_gate_open();
    return arg;
}

/* A child that hangs is ended, and said to be. */
static void fork_and(void (*act)(void))
{
    int status;
    const pid_t child = fork();

    if (child == 0) {
        alarm(10);
        act();
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static bool is_locked(void)
{
    if (pthread_mutex_trylock(&registering))
        return true;
    pthread_mutex_unlock(&registering);
    return false;
}

/* Where another malloc serves, and while the heap starts: a child would find the lock as it was. */
static void test_no_lock_without_our_handlers(void **state)
{
    (void)state;
    gf_heap_registers();
    assert_false(is_locked());
    assert_int_equal(gf_heap_atfork(prepare, release, make_anew), 0);
    gf_heap_registered();
    assert_int_equal(registers, 0);
    assert_true(!here.slot || here.slot->depth == 0);
    gf_heap_registers();
    assert_int_equal(is_locked(), handlers_run_unlocked());
    gf_heap_registered();
    assert_false(is_locked());
}

static pthread_t registrant, closer;

/* The first GPU comes while a fork goes by locks: the next one goes by the gate. */
static void come_between(void)
{
    gf_gate_allow();
    registrant = start(register_one);
    usleep(30000);
    closer = start(close_and_open);
    usleep(30000);
}

static void register_in_child(void)
{
    register_one(NULL);
}

static void *idle(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static void test_one_fork_by_locks_and_one_by_the_gate(void **state)
{
    (void)state;
    start(idle);
    before_locks = come_between;
    alarm(10);
    fork_and(register_in_child);
    pthread_join(registrant, NULL);
    pthread_join(closer, NULL);
    alarm(0);
    assert_false(is_locked());
    close_and_open(NULL);
}

static void come_out(void)
{
    gf_heap_registered();
    register_one(NULL);
    close_and_open(NULL);
}

static void test_a_signal_handler_may_fork_in_between(void **state)
{
    (void)state;
    gf_heap_registers();
    fork_and(come_out);
    gf_heap_registered();
    alarm(10);
    close_and_open(NULL);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_lock_without_our_handlers), /* first: then they are there */
        cmocka_unit_test(test_one_fork_by_locks_and_one_by_the_gate),
        cmocka_unit_test(test_a_signal_handler_may_fork_in_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
