/* SPDX-License-Identifier: Apache-2.0 */
/* The CPUs of helpers when the program narrows its mask. */
#include "unit.h"

#include "base/clock.h"
#include "host/tasks.h"
#include "engine/transfer/pool.h"
#include "os/cpu_claim.h"
#include "os/own_table.h"
#include "os/permit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
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
static bool name_helper(struct gf_pieces *job, uint64_t piece)
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
        struct gf_pieces job = {.work = name_helper};
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

static uint64_t slow_ns;    /* how much CPU time a read of the clock seems to take */
static unsigned counts = 1; /* of the next claimant */

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    static uint64_t slowed_ns;
    const int result = __real_clock_gettime(clock, ret);

    if (clock == CLOCK_THREAD_CPUTIME_ID)
        *ret = gf_timespec((uint64_t)ret->tv_sec * 1000000000 + (uint64_t)ret->tv_nsec +
                           (slowed_ns += slow_ns));
    return result;
}

static uid_t claimant_user;            /* not 0: the user of the next claimant */
static uid_t claimant_id;              /* its effective id; 0: that of a setuid program */
static struct gf_cpu_claim last_claim; /* of the last claimant */

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
        if (claimant_user && setresuid(claimant_user, claimant_id, claimant_id))
            _exit(1);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test kills no claimant */
        prctl(PR_SET_DUMPABLE, 1);
        start_server();
        unsigned count = 0;
        for (unsigned i = 0; i < counts; i++)
            count = gf_cpu_claim_count(&claim, cpus);
        if (write(claimed[1], &count, sizeof(count)) == sizeof(count) &&
            write(claimed[1], &claim, sizeof(claim)) == sizeof(claim))
            pause();
        _exit(0);
    }
    assert_int_equal(read(claimed[0], ret_count, sizeof(*ret_count)), sizeof(*ret_count));
    assert_int_equal(read(claimed[0], &last_claim, sizeof(last_claim)), sizeof(last_claim));
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

/*
 * Any user may lock bytes of the file, also those of threads that exist. Starts a process that does
 * so for the ids of its parent, which claims nothing, and of `claimant`, which claims other CPUs.
 */
static pid_t start_liar(uint64_t claim, pid_t claimant)
{
    const uint64_t start = claim >> 22 << 22;
    const uint64_t at[] = {start + (uint64_t)getppid(), start + (uint64_t)getpid(),
                           start + (uint64_t)claimant, start + (uint64_t)claimant + 1};
    int locked[2];
    char byte = 0;

    assert_int_equal(pipe(locked), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        const int fd = open("/sys/devices/system/cpu/possible", O_RDONLY);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (size_t i = 0; i < GF_ARRAY_LEN(at); i++) {
            struct flock lock = {.l_type = F_RDLCK, .l_start = (off_t)at[i], .l_len = 1};
            fcntl(fd, F_OFD_SETLK, &lock);
        }
        if (write(locked[1], &byte, 1) == 1)
            pause();
        _exit(0);
    }
    assert_int_equal(read(locked[0], &byte, 1), 1);
    close(locked[0]);
    close(locked[1]);
    return pid;
}

/* Locks that are no claims of this user are not counted. */
static void locks_of_others_do_not_count(void **state)
{
    struct gf_cpus cpus = {0}, others = {0};
    unsigned count;
    (void)state;

    need_claimants();
    for (unsigned cpu = 0; cpu < 32; cpu += 3) {
        gf_set_add(&cpus, cpu);
        gf_set_add(&others, cpu + 1);
    }
    const pid_t elsewhere = start_claimant(&others, &count);
    const pid_t first = start_claimant(&cpus, &count);
    assert_int_equal(count, 1);
    const pid_t liar = start_liar(last_claim.at, elsewhere);
    const pid_t second = start_claimant(&cpus, &count);
    assert_int_equal(count, 2);
    if (geteuid() == 0) { /* only root can start a process of another user */
        claimant_user = claimant_id = 65534;
        const pid_t other = start_claimant(&cpus, &count);
        assert_int_equal(count, 1);
        claimant_id = 0;
        const pid_t setuid_program = start_claimant(&cpus, &count);
        claimant_user = 0;
        const pid_t third = start_claimant(&cpus, &count);
        assert_int_equal(count, 3);
        kill_claimant(third);
        kill_claimant(setuid_program);
        kill_claimant(other);
    }
    kill_claimant(second);
    kill_claimant(liar);
    kill_claimant(first);
    kill_claimant(elsewhere);
}

/* Another user may hold very many locks, among which each query searches. */
static void slow_counts_end(void **state)
{
    enum { claimants = 3 };
    struct gf_cpus cpus = {0};
    pid_t pids[claimants];
    unsigned count;
    (void)state;

    need_claimants();
    gf_set_add(&cpus, 1);
    gf_set_add(&cpus, 5);
    for (unsigned i = 0; i < claimants; i++)
        pids[i] = start_claimant(&cpus, &count);
    assert_int_equal(count, claimants);
    slow_ns = 60000000;
    kill_claimant(start_claimant(&cpus, &count));
    assert_int_equal(count, 2);
    counts = 2;
    kill_claimant(start_claimant(&cpus, &count));
    assert_int_equal(count, 1); /* as without claims */
    counts = 1;
    slow_ns = 0;
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
        cmocka_unit_test(locks_of_others_do_not_count),
        cmocka_unit_test(slow_counts_end),
        cmocka_unit_test(processes_share_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
