/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "hook/counters.c"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>

#define HOOK gf_hook_pthread_create
#define BEYOND 100 /* threads at once, more than there are sets of one thread's own */
#define CALLS 20000

static pthread_barrier_t all_have_sets;
static unsigned sets[BEYOND];

static bool add_up(void *closure, const struct gf_tally *tally)
{
    if (strcmp(tally->name, "pthread_create") == 0)
        *(struct gf_tally *)closure = *tally;
    return true;
}

static struct gf_tally told(void)
{
    struct gf_tally ret = {0};
    gf_counters_each(add_up, &ret);
    return ret;
}

static void *count_many(void *closure)
{
    gf_count(HOOK);
    if (closure) {
        *(unsigned *)closure = gf_thread.counters;
        pthread_barrier_wait(&all_have_sets);
    }
    for (int i = 1; i < CALLS; i++)
        gf_count(HOOK);
    gf_count_bytes(HOOK, 7);
    gf_count_more(HOOK, 2);
    gf_count_large(HOOK, 5, true);
    gf_count_large(HOOK, 3, false);
    return NULL;
}

static pthread_t start(unsigned *ret_set)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, count_many, ret_set), 0);
    return thread;
}

static void *join_only(void *closure)
{
    (void)closure;
    gf_count(HOOK);
    return (void *)(uintptr_t)gf_thread.counters;
}

static unsigned set_of_a_new_thread(void)
{
    void *set;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, join_only, NULL), 0);
    pthread_join(thread, &set);
    return (unsigned)(uintptr_t)set;
}

/* Between more threads than have a set of their own nothing is lost, and those that have are its only writers. */
static void test_counts_of_many_threads_add_up(void **state)
{
    pthread_t threads[BEYOND];
    bool taken[GF_COUNTER_OWN + 2] = {false};
    const struct gf_tally before = told();

    pthread_barrier_init(&all_have_sets, NULL, BEYOND);
    for (int i = 0; i < BEYOND; i++)
        threads[i] = start(&sets[i]);
    for (int i = 0; i < BEYOND; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all_have_sets);

    unsigned shared = 0;
    for (int i = 0; i < BEYOND; i++) {
        assert_in_range(sets[i], 1, GF_COUNTER_OWN + 1);
        if (sets[i] > GF_COUNTER_OWN) {
            shared++;
            continue;
        }
        assert_false(taken[sets[i]]);
        taken[sets[i]] = true;
    }
    assert_int_equal(shared, BEYOND - GF_COUNTER_OWN);

    const struct gf_tally after = told();
    assert_int_equal(after.calls - before.calls, BEYOND * CALLS);
    assert_int_equal(after.copies - before.copies, BEYOND * (CALLS + 2));
    assert_int_equal(after.bytes - before.bytes, BEYOND * 7);
    assert_int_equal(after.offered - before.offered, BEYOND);
    assert_int_equal(after.offered_bytes - before.offered_bytes, BEYOND * 5);
    assert_int_equal(after.unfit - before.unfit, BEYOND);
    assert_int_equal(after.unfit_bytes - before.unfit_bytes, BEYOND * 3);
    (void)state;
}

/* A thread pool that comes and goes does not use them up: the test above has left a set to nobody who lives. */
static void test_sets_of_threads_that_have_ended_are_taken_again(void **state)
{
    (void)state;
    const uint64_t before = told().calls;
    for (unsigned i = 0; i < 3 * GF_COUNTER_OWN; i++)
        assert_in_range(set_of_a_new_thread(), 1, GF_COUNTER_OWN);
    assert_int_equal(told().calls - before, 3 * GF_COUNTER_OWN);
}

static void test_joining_keeps_errno(void **state)
{
    (void)state;
    errno = ENOTTY;
    gf_thread.counters = 0;
    gf_count(HOOK);
    assert_int_equal(errno, ENOTTY);
}

/* The parent's other threads are none of a child's, and who forked keeps its set: nobody else gets it. */
static void test_a_child_has_its_parents_sets(void **state)
{
    (void)state;
    gf_count(HOOK);
    const unsigned mine = gf_thread.counters;
    assert_in_range(mine, 1, GF_COUNTER_OWN);
    const pid_t child = fork();
    if (child == 0) {
        gf_counters_in_child();
        bool right = gf_thread.counters == mine;
        for (unsigned i = 0; i < 2 * GF_COUNTER_OWN; i++) {
            const unsigned set = set_of_a_new_thread();
            right = right && set != mine && set <= GF_COUNTER_OWN;
        }
        _exit(right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_of_many_threads_add_up),
        cmocka_unit_test(test_sets_of_threads_that_have_ended_are_taken_again),
        cmocka_unit_test(test_joining_keeps_errno),
        cmocka_unit_test(test_a_child_has_its_parents_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
