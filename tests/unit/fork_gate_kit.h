/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that meet at the fork gate, for the tests of the gate. Included once in each of them. */
#ifndef GF_TESTS_FORK_GATE_KIT_H
#define GF_TESTS_FORK_GATE_KIT_H

#include "preload/heap/fork_gate.h"
#include "unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* Replaces jemalloc's function, which jemalloc calls when a thread ends. */
void __real_je_witnesses_cleanup(void *tsd);
void __real_je_witnesses_cleanup(void *tsd)
{
    (void)tsd;
}

static bool can_close;
static unsigned count; /* number of threads that have arrived at a point */

static void arrive(void)
{
    __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
}

static bool have_arrived(unsigned wanted)
{
    return __atomic_load_n(&count, __ATOMIC_SEQ_CST) >= wanted;
}

static void wait_until_arrived(unsigned wanted)
{
    for (int i = 0; !have_arrived(wanted); i++, usleep(1000))
        assert_true(i < 20000);
}

/* Gives other threads time for an action that they must not take. */
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

static void *close_and_open(void *open)
{
    assert_true(gf_fork_gate_close());
    arrive();
    while (!__atomic_load_n((bool *)open, __ATOMIC_SEQ_CST))
        usleep(1000);
    gf_fork_gate_open();
    return NULL;
}

static int allow(void **state)
{
    (void)state;
    count = 0;
    gf_fork_gate_allow();
    can_close = gf_fork_gate_close();
    if (can_close)
        gf_fork_gate_open();
    return 0;
}

#define NEEDS_BARRIER(state)                                                                       \
    (void)(state);                                                                                 \
    if (!can_close)                                                                                \
    skip_because("the kernel refuses membarrier")

/* hold_one waits for it. Hundreds of threads that poll would keep the emulated CPUs busy for minutes. */
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void *hold_one(void *forget)
{
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

    if (forget) {
        assert_int_equal(gf_heap_mutex_lock(&own), 0);
        assert_int_equal(gf_heap_mutex_unlock(&own), 0);
        gf_fork_gate_forget();
    }
    assert_int_equal(gf_heap_mutex_lock(&own), 0);
    arrive();
    assert_int_equal(pthread_mutex_lock(&held), 0);
    assert_int_equal(pthread_mutex_unlock(&held), 0);
    assert_int_equal(gf_heap_mutex_unlock(&own), 0);
    return NULL;
}

static void waits_for_all(unsigned threads, void *forget)
{
    pthread_t *thread = calloc(threads, sizeof(*thread));
    bool open = true;

    pthread_mutex_lock(&held);
    for (unsigned i = 0; i < threads; i++)
        thread[i] = start(hold_one, forget);
    wait_until_arrived(threads);
    pthread_t closer = start(close_and_open, &open);
    give_time();
    assert_false(have_arrived(threads + 1));
    pthread_mutex_unlock(&held);
    wait_until_arrived(threads + 1);
    pthread_join(closer, NULL);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    free(thread);
}

#endif
