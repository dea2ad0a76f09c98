/* SPDX-License-Identifier: Apache-2.0 */
/* The CPUs of helpers when the program narrows its mask. */
#include "unit.h"

#include "engine/machine/tasks.h"
#include "engine/transfer/pool/pool.h"
#include "os/cpu_claim.h"
#include "os/own_table.h"
#include "os/permit.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct helper_masks {
    struct gf_cpus wanted;
    unsigned right, wrong;
};

static void compare_mask(void *closure, int task, pid_t tid)
{
    struct helper_masks *masks = closure;
    struct gf_cpus mask;
    char path[64], name[32] = "";

    (void)task;
    snprintf(path, sizeof(path), "/proc/self/task/%d/comm", tid);
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    const bool helper = fgets(name, sizeof(name), file) && strcmp(name, "follower\n") == 0;
    fclose(file);
    if (!helper || gf_tasks_get_mask(tid, &mask))
        return;
    if (gf_set_equal(&mask, &masks->wanted))
        masks->right++;
    else
        masks->wrong++;
}

/* Names the pool's helpers, so that the test ignores helpers of other pools. */
static bool name_helper(struct gf_job *job, uint64_t piece)
{
    (void)job;
    (void)piece;
    if (gettid() != getpid())
        prctl(PR_SET_NAME, "follower");
    usleep(2000);
    return true;
}

static void assert_helpers_on(const struct gf_cpus *cpus)
{
    struct helper_masks masks = {.wanted = *cpus};
    gf_tasks_each(0, compare_mask, &masks);
    assert_int_equal(masks.right, 2);
    assert_int_equal(masks.wrong, 0);
}

/*
 * The program narrows the masks of all its threads. The helpers then leave the CPUs that the
 * program gave up.
 */
static void helpers_follow_the_program(void **state)
{
    struct gf_cpus all = {0}, first = {0}, second = {0};
    (void)state;

    gf_tasks_get_mask(0, &all);
    const int one = gf_set_next(&all, 0), two = one < 0 ? -1 : gf_set_next(&all, (unsigned)one + 1);
    if (two < 0)
        skip_because("needs two CPUs");
    gf_set_add(&first, (unsigned)one);
    gf_set_add(&second, (unsigned)two);
    struct gf_pool *pool = gf_pool_get(901, &first, &(struct gf_pool_size){.threads = 3});
    assert_int_equal(gf_pool_start(pool), 0);
    while (gf_pool_helpers(pool) < 2)
        usleep(1000);
    for (unsigned named = 0, tries = 0; named < 2 && tries < 2000; tries++) {
        struct gf_job job = {.work = name_helper};
        struct helper_masks masks = {.wanted = first};
        gf_pool_run(pool, &job, 6);
        gf_tasks_each(0, compare_mask, &masks);
        named = masks.right + masks.wrong;
    }
    assert_helpers_on(&first);
    gf_pools_follow(&second); /* the program gives up all CPUs of the pool */
    assert_helpers_on(&second);
    assert_int_equal(gf_pool_threads(pool), 3); /* the user's option set this number */
    gf_pools_follow(&all);                      /* restores the pool's own CPUs */
    assert_helpers_on(&first);
}

static bool is_new(struct gf_pool *pool)
{
    return gf_pool_note_threads(pool, gf_pool_threads(pool));
}

/* If one CPU is left, one thread copies. Each change is noticed once. */
static void narrowed_pools_use_fewer_threads(void **state)
{
    struct gf_cpus both = {0}, one = {0};
    (void)state;

    gf_set_add(&both, 0);
    gf_set_add(&both, 1);
    gf_set_add(&one, 1);
    struct gf_pool *pool = gf_pool_get(902, &both, &(struct gf_pool_size){0});
    assert_int_equal(gf_pool_threads(pool), 2);
    assert_true(is_new(pool));
    assert_false(is_new(pool));
    gf_pools_follow(&one);
    assert_int_equal(gf_pool_threads(pool), 1);
    assert_true(is_new(pool));
    assert_false(is_new(pool));
    gf_pools_follow(&both);
    assert_int_equal(gf_pool_threads(pool), 2);
    assert_true(is_new(pool));
}

static pid_t fake_pid; /* not 0: the process id that this process and its children see */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/*
 * Passes on the six arguments that a system call can have. A call may have fewer, so this also reads
 * what lies above them on the stack.
 */
__attribute__((no_sanitize_address)) long __wrap_syscall(long number, ...)
{
    va_list list;
    long arg[6];

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(list, long);
    va_end(list);
    return number == SYS_getpid && fake_pid
               ? fake_pid
               : __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

static void nothing(void)
{
}

static void *serve(void *unused)
{
    gf_own_table_serve(gf_server_reads, nothing);
    return unused;
}

static void do_nothing(void *unused)
{
    (void)unused;
}

static void start_server(void)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
    while (!gf_own_table_run_on_server(do_nothing, NULL))
        usleep(1000);
}

/*
 * Starts a process that claims the CPUs until it is killed, and waits until it has claimed them.
 * Sets *ret_count to the number of claims that the process found.
 */
static pid_t start_claimant(const struct gf_cpus *cpus, unsigned *ret_count)
{
    int claimed[2];

    assert_int_equal(pipe(claimed), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        struct gf_cpu_claim claim = {0};
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test kills no claimant */
        start_server();
        const unsigned count = gf_cpu_claim_count(&claim, cpus);
        if (write(claimed[1], &count, sizeof(count)) == sizeof(count))
            pause();
        _exit(0);
    }
    assert_int_equal(read(claimed[0], ret_count, sizeof(*ret_count)), sizeof(*ret_count));
    close(claimed[0]);
    close(claimed[1]);
    return pid;
}

static void kill_claimant(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void need_claimants(void)
{
#ifdef __SANITIZE_THREAD__
    skip_because("ThreadSanitizer lets a forked child start no thread");
#endif
    if (getenv("GF_UNDER_QEMU"))
        skip_because("qemu-user starts no thread in a forked child");
    if (access("/sys/devices/system/cpu/possible", R_OK) != 0)
        skip_because("needs /sys");
    gf_permit_only(GF_PERMIT_ALL); /* the server needs close_range */
}

/* Processes of different PID namespaces may have the same id, or ids that follow each other. */
static void processes_with_the_same_id_are_counted(void **state)
{
    enum { claimants = 6 };
    struct gf_cpus cpus = {0};
    pid_t pids[claimants];
    unsigned count = 0;
    (void)state;

    need_claimants();
    for (unsigned cpu = 0; cpu < 32; cpu += 3)
        gf_set_add(&cpus, cpu);
    for (unsigned i = 0; i < claimants; i++) {
        fake_pid = (1 << 22) - 2 + (i == 4); /* the last ids, which are followed by the first */
        pids[i] = start_claimant(&cpus, &count);
        fake_pid = 0;
        assert_int_equal(count, i + 1);
    }
    for (unsigned i = 0; i < claimants; i++)
        kill_claimant(pids[i]);
}

/* Processes without a launcher's variables divide the CPUs that they share. */
static void processes_share_cpus(void **state)
{
    enum { claimants = 3 };
    struct gf_cpus all = {0}, half = {0};
    pid_t pids[claimants], other;
    struct gf_cpu_claim claim = {0};
    unsigned count;
    (void)state;

    need_claimants();
    for (unsigned cpu = 0; cpu < 32; cpu++) {
        gf_set_add(&all, cpu);
        if (cpu < 16)
            gf_set_add(&half, cpu);
    }
    assert_int_equal(gf_cpu_claim_count(&claim, &all), 0); /* this process has no server */
    struct gf_pool *pool = gf_pool_get(903, &all, &(struct gf_pool_size){0});
    struct gf_pool *fixed = gf_pool_get(904, &all, &(struct gf_pool_size){.threads = 9});
    const unsigned most = gf_pool_threads(pool);
    for (unsigned i = 0; i < claimants; i++)
        pids[i] = start_claimant(&all, &count);
    other = start_claimant(&half, &count);
    start_server();
    gf_pools_follow(&all);
    assert_int_equal(gf_pool_threads(pool), most); /* the pool has no helpers yet */
    assert_int_equal(gf_pool_start(pool), 0);
    while (!gf_pool_helpers(pool))
        usleep(1000);
    gf_pools_follow(&all);
    assert_int_equal(gf_pool_threads(pool), 32 / (claimants + 1));
    assert_int_equal(gf_pool_threads(fixed), 9); /* the user's option set this number */
    for (unsigned i = 1; i < claimants; i++)
        kill_claimant(pids[i]);
    gf_pools_follow(&all);
    assert_int_equal(gf_pool_threads(pool), gf_min(most, 32 / 2));
    gf_pools_follow(&half); /* the pool's claim moves to these CPUs */
    assert_int_equal(gf_pool_threads(pool), 16 / 2);
    kill_claimant(other);
    gf_pools_follow(&half);
    assert_int_equal(gf_pool_threads(pool), gf_min(most, 16));
    kill_claimant(pids[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(helpers_follow_the_program),
        cmocka_unit_test(narrowed_pools_use_fewer_threads),
        cmocka_unit_test(processes_with_the_same_id_are_counted),
        cmocka_unit_test(processes_share_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
