/* SPDX-License-Identifier: Apache-2.0 */
/* The fork gate in a process with more threads than the gate has slots. */
#include "fork_gate_kit.h"
#include "fork_gate_seam.h"

#define BEYOND 600 /* more than there are slots */
#define LINES 64   /* cache lines in which the threads beyond the slots count themselves */

void before_store(void)
{
}

static uintptr_t lines[LINES]; /* cache lines of the words to which threads without a slot added */
static unsigned line_count, shared_adds;
static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;

/* Simulates a signal handler that interrupts this thread's entry just before it is counted. */
static __thread void (*handler)(void);

void before_shared_add(const void *word)
{
    const uintptr_t line = (uintptr_t)word / 64;
    void (*const run)(void) = handler;
    unsigned i = 0;

    handler = NULL;
    if (run)
        run();
    pthread_mutex_lock(&noting);
    shared_adds++;
    while (i < line_count && lines[i] != line)
        i++;
    assert_true(i < LINES);
    if (i == line_count)
        lines[line_count++] = line;
    pthread_mutex_unlock(&noting);
}

static unsigned read_shared_adds(void)
{
    pthread_mutex_lock(&noting);
    const unsigned ret = shared_adds;
    pthread_mutex_unlock(&noting);
    return ret;
}

static bool go_on;
static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER;

static void *hold_slot(void *unused)
{
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

    assert_int_equal(gf_heap_mutex_lock(&own), 0);
    assert_int_equal(gf_heap_mutex_unlock(&own), 0);
    arrive();
    assert_int_equal(pthread_mutex_lock(&held), 0);
    assert_int_equal(pthread_mutex_unlock(&held), 0);
    gf_fork_gate_forget();
    return unused;
}

/* Enters while all slots are taken, and again after slots were freed. */
static void *lock_before_and_after(void *adds)
{
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    arrive();
    while (!__atomic_load_n(&go_on, __ATOMIC_SEQ_CST))
        usleep(1000);
    const unsigned before = read_shared_adds();
    assert_int_equal(gf_heap_mutex_lock(&outer), 0);
    assert_true(gf_fork_gate_inside());
    assert_int_equal(gf_heap_mutex_unlock(&outer), 0);
    assert_false(gf_fork_gate_inside());
    *(unsigned *)adds = read_shared_adds() - before;
    gf_fork_gate_forget();
    return NULL;
}

static void test_a_thread_takes_a_slot_that_another_thread_freed(void **state)
{
    pthread_t thread[BEYOND];
    unsigned adds = 1;

    NEEDS_BARRIER(state);
    go_on = false;
    pthread_mutex_lock(&held);
    for (unsigned i = 0; i < BEYOND; i++)
        thread[i] = start(hold_slot, NULL);
    wait_until_arrived(BEYOND);
    const unsigned before = read_shared_adds();
    pthread_t other = start(lock_before_and_after, &adds);
    wait_until_arrived(BEYOND + 1);
    assert_int_equal(read_shared_adds(), before + 1);
    pthread_mutex_unlock(&held);
    for (unsigned i = 0; i < BEYOND; i++)
        pthread_join(thread[i], NULL);
    __atomic_store_n(&go_on, true, __ATOMIC_SEQ_CST);
    pthread_join(other, NULL);
    assert_int_equal(adds, 0);
}

static bool has_closed;

static void *close_beside_handler(void *unused)
{
    assert_true(gf_fork_gate_close());
    __atomic_store_n(&has_closed, true, __ATOMIC_SEQ_CST);
    gf_fork_gate_open();
    return unused;
}

static pthread_t closer;
static bool closed_beside_handler;

static void lock_in_handler(void)
{
    static pthread_mutex_t of_handler = PTHREAD_MUTEX_INITIALIZER;

    assert_int_equal(gf_heap_mutex_lock(&of_handler), 0);
    closer = start(close_beside_handler, NULL);
    usleep(50000);
    closed_beside_handler = __atomic_load_n(&has_closed, __ATOMIC_SEQ_CST);
    assert_int_equal(gf_heap_mutex_unlock(&of_handler), 0);
}

static void *lock_without_slot(void *unused)
{
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

    gf_fork_gate_use_slot(false);
    handler = lock_in_handler;
    assert_int_equal(gf_heap_mutex_lock(&own), 0);
    assert_int_equal(gf_heap_mutex_unlock(&own), 0);
    assert_false(gf_fork_gate_inside());
    return unused;
}

/* A fork waits for the handler, and the interrupted entry then waits for the fork. */
static void test_a_handler_before_the_count_is_counted(void **state)
{
    NEEDS_BARRIER(state);
    pthread_join(start(lock_without_slot, NULL), NULL);
    pthread_join(closer, NULL);
    assert_false(closed_beside_handler);
    assert_true(has_closed);
}

static void test_more_threads_than_slots(void **state)
{
    NEEDS_BARRIER(state);
    waits_for_all(BEYOND, NULL);
    assert_int_equal(line_count, LINES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_thread_takes_a_slot_that_another_thread_freed, allow),
        cmocka_unit_test_setup(test_a_handler_before_the_count_is_counted, allow),
        /* This test is last, because its threads keep their slots. */
        cmocka_unit_test_setup(test_more_threads_than_slots, allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
