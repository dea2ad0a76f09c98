/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "os/own_table.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_barrier_t ready;
static sigjmp_buf outside;
static volatile sig_atomic_t handled, was_own;
static bool leaves;

static void *sleep_for_ever(void *arg)
{
    pthread_barrier_wait(&ready);
    for (;;)
        pause();
    return arg;
}

/* Starts a second thread: in a process with one thread, gf_own_table_run starts none. */
static int start_thread(void **state)
{
    pthread_t thread;
    (void)state;
    pthread_barrier_init(&ready, NULL, 2);
    if (pthread_create(&thread, NULL, sleep_for_ever, NULL))
        return -1;
    pthread_barrier_wait(&ready);
    return 0;
}

static void handle(int number)
{
    (void)number;
    handled++;
    was_own += gf_own_table_is_own();
    if (leaves)
        siglongjmp(outside, 1);
}

struct work {
    pid_t caller;
    bool on_other, is_own;
};

static void send_signal(void *closure)
{
    struct work *const work = closure;
    work->on_other = syscall(SYS_gettid) != work->caller;
    work->is_own = gf_own_table_is_own();
    syscall(SYS_tgkill, getpid(), work->caller, SIGUSR1);
}

#ifdef __SANITIZE_THREAD__
#define SKIP_WITH_DELAYED_SIGNALS() skip_because("ThreadSanitizer calls handlers later")
#else
#define SKIP_WITH_DELAYED_SIGNALS()
#endif

/* A signal handler that runs at the end of the call uses the program's descriptor table. */
static void test_handler_behind_the_call(void **state)
{
    struct work work = {.caller = (pid_t)syscall(SYS_gettid)};
    (void)state;
    SKIP_WITH_DELAYED_SIGNALS();
    handled = was_own = 0;
    leaves = false;
    assert_true(gf_own_table_run(send_signal, &work));
    assert_true(work.on_other && work.is_own);
    assert_int_equal(handled, 1);
    assert_int_equal(was_own, 0);
    assert_false(gf_own_table_is_own());
}

static void test_handler_that_jumps(void **state)
{
    struct work work = {.caller = (pid_t)syscall(SYS_gettid)};
    (void)state;
    SKIP_WITH_DELAYED_SIGNALS();
    handled = was_own = 0;
    leaves = true;
    if (!sigsetjmp(outside, 1)) {
        gf_own_table_run(send_signal, &work);
        fail_msg("the handler returned");
    }
    assert_int_equal(handled, 1);
    assert_int_equal(was_own, 0);
    assert_false(gf_own_table_is_own());
    leaves = false;
    assert_true(gf_own_table_run(send_signal, &work));
    assert_true(work.on_other);
}

int main(void)
{
    const struct sigaction action = {.sa_handler = handle};
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_handler_behind_the_call),
                                       cmocka_unit_test(test_handler_that_jumps)};
    if (sigaction(SIGUSR1, &action, NULL))
        abort();
    return cmocka_run_group_tests(tests, start_thread, NULL);
}
