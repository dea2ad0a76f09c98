/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "preload/heap/slowpath.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static __thread bool waits;
static bool reached, go_on;

/*
 * Runs after the fork handler that records the fork, and before the handlers that take the heap's
 * locks.
 */
static void before_fork(void)
{
    if (!waits)
        return;
    __atomic_store_n(&reached, true, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&go_on, __ATOMIC_ACQUIRE))
        usleep(1000);
}

static void fork_once(void)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* In the child no fork is in progress, although another thread of the parent was in one. */
static void child_sees_no_fork(void)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        const uint64_t now = gf_now_ns();
        _exit(gf_slowpath_forked(now, now + 1));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void *fork_slowly(void *unused)
{
    waits = true;
    fork_once();
    return unused;
}

static void report(const struct gf_slowpath *slow)
{
    (void)slow;
}

/* The end of one fork must not end the timing of another thread's fork. */
static void test_two_forks(void **state)
{
    static const struct gf_slowpath_watcher watcher = {.report = report};
    pthread_t thread;
    uint64_t start;

    (void)state;
    free(malloc(1));
    pthread_atfork(before_fork, NULL, NULL);
    gf_slowpath_watch(UINT64_C(1) << 40, &watcher);
    start = gf_now_ns();
    assert_false(gf_slowpath_forked(start, gf_now_ns()));
    assert_int_equal(pthread_create(&thread, NULL, fork_slowly, NULL), 0);
    while (!__atomic_load_n(&reached, __ATOMIC_ACQUIRE))
        usleep(1000);
    assert_true(gf_slowpath_forked(start, gf_now_ns()));
    fork_once();
    child_sees_no_fork();
    start = gf_now_ns();
    assert_true(gf_slowpath_forked(start, gf_now_ns()));
    __atomic_store_n(&go_on, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    start = gf_now_ns();
    assert_false(gf_slowpath_forked(start, gf_now_ns()));
    fork_once();
    assert_true(gf_slowpath_forked(start, gf_now_ns()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_forks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
