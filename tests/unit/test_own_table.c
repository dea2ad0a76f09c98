/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "os/own_table.h"
#include "os/permit.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

#define CLIENTS 6 /* more than there are CPUs, fewer than the server takes at a time */
#define CALLS 300

static _Atomic pid_t serving;

static void begin(void)
{
    serving = (pid_t)syscall(SYS_gettid);
}

static void *serve(void *unused)
{
    gf_own_table_serve(gf_server_reads, begin);
    return unused;
}

static void start_server(void)
{
    pthread_t thread;

    gf_permit_only(GF_PERMIT_ALL);
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
    for (unsigned i = 0; !serving && i < 20000; i++)
        usleep(1000);
    usleep(1000); /* begin() runs before the server takes requests */
}

static void get_tid(void *closure)
{
    *(pid_t *)closure = (pid_t)syscall(SYS_gettid);
}

/* Calls until the server takes a call. On a busy machine it may begin late. */
static void await_server(void)
{
    pid_t tid = 0;
    for (unsigned i = 0; i < 20000 && tid != serving; i++) {
        usleep(i ? 1000 : 0);
        assert_true(gf_own_table_run(get_tid, &tid));
    }
    assert_int_equal(tid, serving);
}

static void *call_often(void *served)
{
    for (unsigned i = 0; i < CALLS; i++) {
        pid_t tid = 0;
        assert_true(gf_own_table_run(get_tid, &tid));
        *(unsigned *)served += tid == serving;
    }
    return NULL;
}

static void test_one_thread_serves_all(void **state)
{
    pthread_t thread[CLIENTS];
    unsigned served[CLIENTS] = {0};

    (void)state;
    start_server();
    await_server();
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, call_often, &served[i]), 0);
    for (unsigned i = 0; i < CLIENTS; i++) {
        pthread_join(thread[i], NULL);
        assert_true(served[i] > CALLS / 2); /* on a busy machine, some calls start a thread */
    }
}

static _Atomic pid_t hung_on; /* the thread that hangs */
static _Atomic bool may_end;

static void hang(void *pipe)
{
    char byte;
    const long got = syscall(SYS_read, ((int *)pipe)[0], &byte, 1UL);
    assert_int_equal(got, -1); /* the server has a table of its own, without this pipe */
    hung_on = (pid_t)syscall(SYS_gettid);
    while (!may_end)
        usleep(1000);
}

static void *hang_server(void *pipe)
{
    gf_own_table_run(hang, pipe);
    return NULL;
}

static pthread_t start_hanging(int fds[2])
{
    pthread_t thread;
    hung_on = 0;
    may_end = false;
    assert_int_equal(pthread_create(&thread, NULL, hang_server, fds), 0);
    while (!hung_on)
        usleep(1000);
    return thread;
}

static void end_hanging(pthread_t thread)
{
    may_end = true;
    pthread_join(thread, NULL);
}

static void test_a_call_does_not_wait_for_a_server_that_hangs(void **state)
{
    int fds[2];
    pid_t tid = 0;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    pthread_t thread = start_hanging(fds);
    for (unsigned i = 0; i < 100 && hung_on != serving; i++) {
        end_hanging(thread); /* the server was busy, so another thread took the call */
        thread = start_hanging(fds);
    }
    const bool hangs = hung_on == serving, ran = gf_own_table_run(get_tid, &tid);
    end_hanging(thread);
    assert_true(hangs && ran && tid && tid != serving);
    await_server();
}

static void test_a_forked_child_has_no_server(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip_because("ThreadSanitizer lets a forked child start no thread");
#endif
    if (getenv("GF_UNDER_QEMU"))
        skip_because("qemu-user starts no thread in a forked child");
    const pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        pid_t tid = 0;
        alarm(20);
        pthread_barrier_init(&ready, NULL, 2);
        if (pthread_create(&thread, NULL, sleep_for_ever, NULL))
            _exit(2);
        pthread_barrier_wait(&ready);
        _exit(gf_own_table_run(get_tid, &tid) && tid && tid != getpid() ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct sigaction action = {.sa_handler = handle};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handler_behind_the_call), cmocka_unit_test(test_handler_that_jumps),
        cmocka_unit_test(test_one_thread_serves_all),
        cmocka_unit_test(test_a_call_does_not_wait_for_a_server_that_hangs),
        cmocka_unit_test(test_a_forked_child_has_no_server)};
    if (sigaction(SIGUSR1, &action, NULL))
        abort();
    return cmocka_run_group_tests(tests, start_thread, NULL);
}
