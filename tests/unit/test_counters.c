/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "preload/attach/counters.h"
#include "preload/attach/submissions.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOOK gf_hook_pthread_create
#define BEYOND 100 /* concurrent threads, more than there are private sets */
#define CALLS 20000

static pthread_barrier_t all_have_sets;
static unsigned sets[BEYOND];

static struct gf_hook_counts read_counts(void)
{
    struct gf_hook_counts ret;
    assert_true(gf_counters_read(HOOK, &ret));
    assert_string_equal(ret.name, "pthread_create");
    assert_false(gf_counters_read(gf_hook_count, &(struct gf_hook_counts){0}));
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

/* All threads get their sets before the first of them ends. */
static void count_in_many_threads(void)
{
    pthread_t threads[BEYOND];

    pthread_barrier_init(&all_have_sets, NULL, BEYOND);
    for (int i = 0; i < BEYOND; i++)
        threads[i] = start(&sets[i]);
    for (int i = 0; i < BEYOND; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all_have_sets);
}

static unsigned threads_of(unsigned set)
{
    unsigned ret = gf_thread.counters == set;
    for (int i = 0; i < BEYOND; i++)
        ret += sets[i] == set;
    return ret;
}

static bool has_each_set_one_thread(void)
{
    for (unsigned set = 1; set <= GF_COUNTER_OWN; set++)
        if (threads_of(set) > 1)
            return false;
    return true;
}

/*
 * The sets are mapped by the first thread that counts, so this test is the first. A thread without a
 * set of its own shares the record of its calls, so no copy is cut (engine/transfer/hold.h).
 */
static void test_without_memory_all_threads_share_one_set(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
        setrlimit(RLIMIT_AS, &none);
        if (mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
            _exit(77);
        gf_count(HOOK);
        setrlimit(RLIMIT_AS, &all);
        const bool right =
            gf_thread.counters == GF_COUNTER_OWN + 1 && set_of_a_new_thread() == gf_thread.counters;
        _exit(right && read_counts().calls == 2 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip_because("RLIMIT_AS has no effect, as under an emulator");
    assert_int_equal(status, 0);
    assert_null(gf_load_relaxed(&gf_counters));
    assert_int_equal(read_counts().calls, 0);
}

/* With more threads than private sets, no count is lost, and each private set has one writer. */
static void test_counts_of_many_threads_add_up(void **state)
{
    const struct gf_hook_counts before = read_counts();
    unsigned shared = 0;

    (void)state;
    count_in_many_threads();
    assert_true(has_each_set_one_thread());
    for (unsigned set = GF_COUNTER_OWN + 1; set <= GF_COUNTER_SETS; set++) {
        shared += threads_of(set);
        assert_in_range(threads_of(set), 1, (BEYOND - GF_COUNTER_OWN) / GF_COUNTER_SHARED + 1);
    }
    assert_int_equal(shared, BEYOND - GF_COUNTER_OWN);

    const struct gf_hook_counts after = read_counts();
    assert_int_equal(after.calls - before.calls, BEYOND * CALLS);
    assert_int_equal(after.copies - before.copies, BEYOND * (CALLS + 2));
    assert_int_equal(after.bytes - before.bytes, BEYOND * 7);
    assert_int_equal(after.offered - before.offered, BEYOND);
    assert_int_equal(after.offered_bytes - before.offered_bytes, BEYOND * 5);
    assert_int_equal(after.unfit - before.unfit, BEYOND);
    assert_int_equal(after.unfit_bytes - before.unfit_bytes, BEYOND * 3);
}

/* A thread pool that is recreated repeatedly reuses sets whose owners have ended. */
static void test_sets_of_threads_that_have_ended_are_taken_again(void **state)
{
    (void)state;
    const uint64_t before = read_counts().calls;
    for (unsigned i = 0; i < 3 * GF_COUNTER_OWN; i++)
        assert_in_range(set_of_a_new_thread(), 1, GF_COUNTER_OWN);
    assert_int_equal(read_counts().calls - before, 3 * GF_COUNTER_OWN);
}

/* Half of the sets, side by side, belong to live threads. */
static void test_sets_are_found_behind_those_of_threads_that_live(void **state)
{
    (void)state;
    for (unsigned set = 0; set < GF_COUNTER_OWN / 2; set++)
        gf_counter_owners[set] = gf_counter_owner(getpid(), getpid());
    for (unsigned i = 0; i < GF_COUNTER_OWN; i++)
        assert_in_range(set_of_a_new_thread(), GF_COUNTER_OWN / 2 + 1, GF_COUNTER_OWN);
    memset(gf_counter_owners, 0, sizeof(gf_counter_owners));
    gf_thread.counters = 0;
}

static void test_joining_keeps_errno(void **state)
{
    (void)state;
    errno = ENOTTY;
    gf_thread.counters = 0;
    gf_count(HOOK);
    assert_int_equal(errno, ENOTTY);
}

/*
 * In a child, the thread that forked keeps its set. The sets of the parent's other threads are
 * free.
 */
static void test_a_child_has_its_parents_sets(void **state)
{
    (void)state;
    gf_count(HOOK);
    const unsigned mine = gf_thread.counters;
    assert_in_range(mine, 1, GF_COUNTER_OWN);
    count_in_many_threads();
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

/*
 * A fork before cuInit calls no handler of the library. The child notices its new process ID, and
 * does not use sets of threads that it lacks.
 */
static void test_a_child_without_handler_shares_no_set(void **state)
{
    (void)state;
    gf_count(HOOK);
    const pid_t child = fork();
    if (child == 0) {
        count_in_many_threads();
        bool right = has_each_set_one_thread();
        /* The first threads have ended, so the new ones reuse their sets. */
        count_in_many_threads();
        _exit(right && has_each_set_one_thread() ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void *join_and_stay(void *ret_set)
{
    gf_count(HOOK);
    __atomic_store_n((unsigned *)ret_set, gf_thread.counters, __ATOMIC_RELEASE);
    pause();
    return NULL;
}

/* A fork handler of the program may start a thread before the library's handler runs. */
static void test_a_thread_started_before_the_handler_keeps_its_set(void **state)
{
    static unsigned its;

    (void)state;
    memset(gf_counter_owners, 0, sizeof(gf_counter_owners));
    gf_thread.counters = 0;
    gf_count(HOOK);
    const pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, join_and_stay, &its);
        while (!__atomic_load_n(&its, __ATOMIC_ACQUIRE))
            usleep(100);
        gf_counters_in_child();
        count_in_many_threads();
        _exit(its <= GF_COUNTER_OWN && has_each_set_one_thread() && threads_of(its) == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/*
 * A child of vfork writes to its parent's memory. The set that the child took stays with the
 * parent.
 */
static void test_a_set_taken_between_vfork_and_exec_is_kept(void **state)
{
    (void)state;
    memset(gf_counter_owners, 0, sizeof(gf_counter_owners));
    gf_thread.counters = 0;
    const pid_t child = vfork();
    if (child == 0) {
        gf_count(HOOK);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    if (!gf_thread.counters)
        skip_because("here vfork is fork, as under ThreadSanitizer");
    assert_in_range(gf_thread.counters, 1, GF_COUNTER_OWN);
    count_in_many_threads();
    count_in_many_threads();
    assert_true(has_each_set_one_thread());
}

/*
 * Another thread's copy must not take the outer call for ended when it sees the inner one begin or
 * end. Nor does the context that a signal handler's copy publishes tell that of the call around it.
 */
static void test_a_call_around_another_one_has_no_known_stream(void **state)
{
    struct gf_submitter *const own = &gf_submissions.submitters[0];

    (void)state;
    const uintptr_t none = gf_submissions_enter(1, (uintptr_t)CU_STREAM_LEGACY);
    assert_int_equal(gf_load_relaxed(&own->stream), (uintptr_t)CU_STREAM_LEGACY);
    const uintptr_t outer = gf_submissions_enter(1, (uintptr_t)CU_STREAM_LEGACY);
    assert_true(gf_load_relaxed(&own->stream) == GF_SUBMIT_SEVERAL);
    gf_submissions_leave(1, outer);
    assert_true(gf_load_relaxed(&own->stream) == GF_SUBMIT_SEVERAL);
    gf_submissions_leave(1, none);
    assert_int_equal(gf_load_relaxed(&own->stream), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_memory_all_threads_share_one_set),
        cmocka_unit_test(test_counts_of_many_threads_add_up),
        cmocka_unit_test(test_sets_of_threads_that_have_ended_are_taken_again),
        cmocka_unit_test(test_sets_are_found_behind_those_of_threads_that_live),
        cmocka_unit_test(test_joining_keeps_errno),
        cmocka_unit_test(test_a_child_has_its_parents_sets),
        cmocka_unit_test(test_a_child_without_handler_shares_no_set),
        cmocka_unit_test(test_a_thread_started_before_the_handler_keeps_its_set),
        cmocka_unit_test(test_a_set_taken_between_vfork_and_exec_is_kept),
        cmocka_unit_test(test_a_call_around_another_one_has_no_known_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
