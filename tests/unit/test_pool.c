/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "own_maps.h"
#include "engine/transfer/pool/pool.h"
#include "engine/transfer/setup/tuning.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIECES 200
#define AWAIT(condition)                                                                           \
    for (unsigned ms = 0; ms < 5000 && !(condition); ms++)                                         \
    usleep(1000)

struct count {
    struct gf_job job;
    _Atomic unsigned done[PIECES];
    pid_t owner;
    _Atomic unsigned by_helpers;
    bool odd;     /* a helper has wrong properties */
    uint64_t bad; /* this piece fails */
    useconds_t pause;
    const struct gf_job *other;
    uint64_t seen; /* the other job's next piece at this job's last one */
};

static void check_helper(struct count *c)
{
    char name[16] = "";
    sigset_t blocked;

    prctl(PR_GET_NAME, name);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (strcmp(name, "gpufeed-copy") || sched_getscheduler(0) != SCHED_OTHER ||
        !sigismember(&blocked, SIGTERM) || !sigismember(&blocked, SIGPROF))
        c->odd = true;
}

static bool count(struct gf_job *job, uint64_t piece)
{
    struct count *c = (struct count *)job;
    if (piece == c->bad)
        return false;
    while (piece > c->bad && gf_job_failed(job) == GF_PIECE_NONE)
        usleep(100); /* the thread with the failing piece may wait for a CPU */
    if (gettid() != c->owner) {
        gf_add_relaxed(&c->by_helpers, 1);
        check_helper(c);
    }
    if (c->pause)
        usleep(c->pause);
    if (c->other)
        c->seen = gf_load_relaxed(&c->other->next);
    gf_add_relaxed(&c->done[piece], 1);
    gf_job_notify(job);
    return true;
}

static void prepare(struct count *c)
{
    *c = (struct count){.job.work = count, .owner = gettid(), .bad = GF_PIECE_NONE};
}

static void assert_each_once(const struct count *c, unsigned below)
{
    for (unsigned i = 0; i < PIECES; i++)
        assert_int_equal(c->done[i], i < below);
    assert_false(c->odd);
}

/* Each test uses its own pool, by a node number that no machine has. */
static struct gf_pool *pool_of(int node, unsigned threads)
{
    static const struct gf_cpus any;
    struct gf_pool *pool = gf_pool_get(node, &any, threads, 0);
    assert_non_null(pool);
    return pool;
}

static void await_helpers(const struct gf_pool *pool, unsigned number)
{
    AWAIT(gf_pool_helpers(pool) >= number);
    assert_int_equal(gf_pool_helpers(pool), number);
}

static void caller_alone(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1001, 4); /* not started: no helper comes */
    struct count c;
    prepare(&c);
    assert_int_equal(gf_pool_run(pool, &c.job, PIECES), GF_PIECE_NONE);
    assert_each_once(&c, PIECES);
    assert_int_equal(c.by_helpers, 0);
}

static void with_helpers(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1002, 4);
    struct count c;
    assert_int_equal(gf_pool_start(pool), 0);
    assert_false(gf_pool_has_failed(pool));
    await_helpers(pool, 3);
    for (unsigned round = 0; round < 50; round++) {
        prepare(&c);
        c.pause = round == 0 ? 200 : 0;
        assert_int_equal(gf_pool_run(pool, &c.job, PIECES), GF_PIECE_NONE);
        assert_each_once(&c, PIECES);
        if (round == 0)
            assert_true(c.by_helpers > 0);
    }
    assert_int_equal(gf_pool_helpers(pool), 3);
    assert_int_equal(gf_pool_jobs(pool), 0);
}

static void limits_and_waiting(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1002, 4);
    struct count c;
    prepare(&c);
    gf_pool_open(pool, &c.job, 0);
    assert_false(gf_job_help(&c.job));
    for (unsigned limit = 1; limit <= 20; limit++) { /* helpers do all pieces */
        uint32_t seen = gf_job_events(&c.job);
        gf_pool_raise(pool, &c.job, limit);
        while (!gf_load_relaxed(&c.done[limit - 1])) {
            gf_job_wait(&c.job, seen);
            seen = gf_job_events(&c.job);
        }
    }
    assert_int_equal(gf_pool_close(pool, &c.job), GF_PIECE_NONE);
    assert_each_once(&c, 20);
    assert_int_equal(c.by_helpers, 20);
}

static void failure_ends_it(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1002, 4);
    for (unsigned round = 0; round < 50; round++) {
        struct count c;
        prepare(&c);
        c.bad = 7;
        assert_int_equal(gf_pool_run(pool, &c.job, PIECES), 7);
        for (unsigned i = 0; i < 7; i++)
            assert_int_equal(c.done[i], 1); /* pieces before the failing one are done */
        assert_int_equal(c.done[7], 0);
        assert_true(c.job.next <=
                    11); /* no later piece is begun, except those that four threads had claimed */
    }
}

/* Helpers run SCHED_OTHER also when the thread that starts them does not. */
static void *make_in_batch(void *arg)
{
    static const struct sched_param none;
    struct count c;
    assert_int_equal(sched_setscheduler(0, SCHED_BATCH, &none), 0);
    assert_int_equal(gf_pool_start(arg), 0);
    await_helpers(arg, 3);
    prepare(&c);
    c.pause = 200;
    assert_int_equal(gf_pool_run(arg, &c.job, PIECES), GF_PIECE_NONE);
    assert_each_once(&c, PIECES);
    assert_true(c.by_helpers > 0);
    return NULL;
}

static void started_by_a_batch_thread(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, make_in_batch, pool_of(1004, 4)), 0);
    pthread_join(thread, NULL);
}

struct caller {
    pthread_t thread;
    struct gf_pool *pool;
    bool right;
};

static void *run_many(void *arg)
{
    struct caller *caller = arg;
    struct count c;
    caller->right = true;
    for (unsigned round = 0; round < 200; round++) {
        prepare(&c);
        gf_pool_run(caller->pool, &c.job, PIECES);
        for (unsigned i = 0; i < PIECES; i++)
            caller->right &= c.done[i] == 1;
    }
    return NULL;
}

static void several_callers(void **state)
{
    (void)state;
    struct caller callers[8];
    for (unsigned i = 0; i < 8; i++) {
        callers[i] = (struct caller){.pool = pool_of(1002, 4)};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, run_many, &callers[i]), 0);
    }
    for (unsigned i = 0; i < 8; i++) {
        pthread_join(callers[i].thread, NULL);
        assert_true(callers[i].right);
    }
}

/* One helper alternates between two jobs whose owners do nothing. */
static void helpers_are_shared(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1003, 2);
    struct count a, b;
    assert_int_equal(gf_pool_start(pool), 0);
    prepare(&a), prepare(&b);
    a.pause = b.pause = 500;
    gf_pool_open(pool, &a.job, PIECES);
    const int64_t alone = (int64_t)gf_load_relaxed(&a.job.next);
    gf_pool_open(pool, &b.job, PIECES);
    AWAIT(gf_load_relaxed(&b.job.next) >= 20);
    const int64_t of_b = (int64_t)gf_load_relaxed(&b.job.next);
    const int64_t of_a = (int64_t)gf_load_relaxed(&a.job.next) - alone;
    gf_pool_close(pool, &a.job);
    gf_pool_close(pool, &b.job);
    assert_true(of_b >= 20 && of_a - of_b >= -20 && of_a - of_b <= 20);
}

static void low_priority_waits(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1003, 2);
    struct count low, other;
    prepare(&low);
    prepare(&other);
    low.job.low_priority = true;
    low.pause = other.pause = 500;
    other.other = &low.job;
    gf_pool_open(pool, &other.job, 40);
    gf_pool_open(pool, &low.job, PIECES);
    AWAIT(gf_job_is_finished(&other.job));
    gf_pool_close(pool, &other.job);
    AWAIT(gf_load_relaxed(&low.job.next) >= 20);
    gf_pool_close(pool, &low.job);
    assert_each_once(&other, 40);
    assert_true(low.job.next >= 20);
    assert_true(other.seen < 20); /* at equal priority it would be 40 */
}

static void helpers_finish_alone(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1003, 2);
    struct count c;
    prepare(&c);
    gf_pool_open(pool, &c.job, 30);
    AWAIT(gf_job_is_finished(&c.job));
    assert_true(gf_job_is_finished(&c.job));
    assert_int_equal(gf_pool_close(pool, &c.job), GF_PIECE_NONE);
    assert_each_once(&c, 30);
}

static _Atomic uint32_t ended;

static void end(struct gf_job *job)
{
    const struct count *c = (struct count *)job;
    gf_add_seq_cst(&ended, gettid() == c->owner ? 100 : 1);
}

static void jobs_without_owner(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1003, 2);
    static struct count c[3];
    for (unsigned i = 0; i < 3; i++) {
        prepare(&c[i]);
        c[i].job.done = end;
        c[i].job.max_helpers = i;
        c[i].job.low_priority = i == 1;
        c[i].bad = i == 2 ? 10 : GF_PIECE_NONE;
        gf_pool_open(pool, &c[i].job, 30);
    }
    AWAIT(gf_load_seq_cst(&ended) >= 3);
    assert_int_equal(ended, 3);
    assert_int_equal(gf_pool_jobs(pool), 0); /* idle helpers spin longer while a job is open */
    assert_each_once(&c[0], 30);
    assert_each_once(&c[1], 30);
    assert_int_equal(c[2].job.failed, 10);
}

static _Atomic bool place_taken;

static bool nothing(struct gf_job *job, uint64_t piece)
{
    return job->total > piece;
}

static void leave_place(struct gf_job *job)
{
    (void)job;
    gf_store_release(&place_taken, false);
}

static void *use_place(void *closure)
{
    static struct gf_job job;
    for (unsigned used = 0; used < 3000;) {
        if (gf_exchange_acquire(&place_taken, true)) {
            sched_yield();
            continue;
        }
        job = (struct gf_job){.work = nothing, .done = leave_place, .max_helpers = 1, .total = 3};
        gf_pool_open(closure, &job, 3);
        used++;
    }
    return NULL;
}

static _Atomic bool places_over;

/* Keeps helpers awake. */
static void *keep_awake(void *pool)
{
    while (!gf_load_relaxed(&places_over)) {
        struct gf_job job = {.work = nothing, .total = 200};
        gf_pool_run(pool, &job, 200);
    }
    return NULL;
}

/*
 * A finished job without an owner is reused while the thread that opened it may still be inside
 * gf_pool_open. ThreadSanitizer shows a wrong access (tests/sanitize.sh).
 */
static void reused_jobs_without_owner(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1002, 4);
    pthread_t thread[3];
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, i ? use_place : keep_awake, pool), 0);
    for (unsigned i = 1; i < 3; i++)
        pthread_join(thread[i], NULL);
    gf_store_relaxed(&places_over, true);
    pthread_join(thread[0], NULL);
    AWAIT(!gf_pool_jobs(pool));
    assert_int_equal(gf_pool_jobs(pool), 0);
}

/* 0 for other threads: a sanitizer has one that wakes up by itself. */
static unsigned long naps_of(const char *tid)
{
    unsigned long ret = 0;
    bool helps = false;
    char path[300], line[128];
    snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof(line), status)) {
        helps |= strcmp(line, "Name:\tgpufeed-copy\n") == 0;
        sscanf(line, "voluntary_ctxt_switches: %lu", &ret);
    }
    if (status)
        fclose(status);
    return helps ? ret : 0;
}

/* How often helpers have gone to sleep. */
static unsigned long naps(void)
{
    unsigned long ret = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *task; (task = readdir(tasks));)
        ret += naps_of(task->d_name);
    closedir(tasks);
    return ret;
}

/* How often helpers have gone to sleep when none spins any more. */
static unsigned long naps_in_the_end(void)
{
    unsigned long before = 0, now = naps();
    for (unsigned i = 0; i < 100 && now != before; i++, now = naps()) {
        before = now;
        usleep(50000);
    }
    return now;
}

static int held_by[2]; /* a pipe */
static _Atomic bool inside;

static bool hold(struct gf_job *job, uint64_t piece)
{
    char word;
    (void)job;
    gf_store_relaxed(&inside, true);
    return piece > 0 || read(held_by[0], &word, 1) == 1;
}

static void max_helpers_limits_wakeups(void **state)
{
    (void)state;
    struct gf_job job = {.work = hold, .max_helpers = 1, .total = 20};
    struct gf_pool *pool = pool_of(1005, 4);

    assert_int_equal(pipe(held_by), 0);
    assert_int_equal(gf_pool_start(pool), 0);
    await_helpers(pool, 3);
    naps_in_the_end();
    gf_pool_open(pool, &job, 1);
    while (!gf_load_relaxed(&inside))
        usleep(1000);
    const unsigned long before = naps_in_the_end();
    for (uint64_t limit = 2; limit <= 20; limit++) {
        gf_pool_raise(pool, &job, limit);
        usleep(1000);
    }
    assert_int_equal(naps_in_the_end(), before);
    assert_int_equal(write(held_by[1], "x", 1), 1);
    while (gf_job_help(&job))
        ;
    assert_int_equal(gf_pool_close(pool, &job), GF_PIECE_NONE);
    close(held_by[0]);
    close(held_by[1]);
}

static uint64_t cpu_us(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

static void asleep_when_idle(void **state)
{
    (void)state;
    usleep(20000);
    const uint64_t before = cpu_us();
    usleep(300000);
    assert_true(cpu_us() - before < 30000); /* one spinning helper would use ten times that */
}

static void default_threads(void **state)
{
    (void)state;
    struct gf_cpus cpus = {0};
    for (unsigned i = 0; i < 2; i++)
        gf_set_add(&cpus, i);
    assert_int_equal(gf_pool_threads(gf_pool_get(1010, &cpus, 0, 0)), 2);
    assert_int_equal(gf_pool_threads(gf_pool_get(1011, &cpus, 0, 0.5)), 1);
    assert_int_equal(gf_pool_threads(gf_pool_get(1012, &cpus, 5, 0.5)), 5);
    for (unsigned i = 2; i < 64; i++)
        gf_set_add(&cpus, i);
    assert_int_equal(gf_pool_threads(gf_pool_get(1013, &cpus, 0, 0)), GF_TUNE_THREADS);
    assert_int_equal(gf_pool_threads(gf_pool_get(1014, &cpus, 0, 3.5)), 3);
    assert_ptr_equal(gf_pool_get(1014, &cpus, 0, 0), gf_pool_get(1014, &cpus, 1, 1));
}

/* Each helper records the address of its stack once. */
static struct stacks {
    struct gf_job job;
    _Atomic unsigned told;
    uintptr_t at[8];
} stacks;

static bool tell_stack(struct gf_job *job, uint64_t piece)
{
    char here;
    (void)piece;
    stacks.at[gf_add_relaxed(&stacks.told, 1)] = (uintptr_t)&here;
    while (gf_load_relaxed(&stacks.told) < 4)
        usleep(100);
    gf_job_notify(job);
    return true;
}

static unsigned mapping_of(uintptr_t address)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    uintptr_t from, to;
    unsigned line = 1;
    assert_non_null(maps);
    while (fscanf(maps, "%" SCNxPTR "-%" SCNxPTR "%*[^\n]", &from, &to) == 2 &&
           (address < from || address >= to))
        line++;
    fclose(maps);
    return line;
}

/* Stacks are one mapping, even if there are holes that a single stack fits into. */
static void stacks_side_by_side(void **state)
{
    const size_t hole = (size_t)1 << 20;
    struct gf_pool *pool = pool_of(1020, 5);
    char *holes[8];

    (void)state;
    for (unsigned i = 0; i < GF_ARRAY_LEN(holes); i++) {
        holes[i] = mmap(NULL, 3 * hole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(holes[i] != MAP_FAILED);
        munmap(holes[i] + hole, hole);
    }
    assert_int_equal(gf_pool_start(pool), 0);
    await_helpers(pool, 4);
    stacks.job = (struct gf_job){.work = tell_stack, .total = 4};
    gf_pool_open(pool, &stacks.job, 4);
    while (!gf_job_is_finished(&stacks.job))
        usleep(100);
    gf_pool_close(pool, &stacks.job);
    for (unsigned i = 1; i < 4; i++) {
        assert_true(stacks.at[i] >> 20 != stacks.at[0] >> 20);
        assert_int_equal(mapping_of(stacks.at[i]), mapping_of(stacks.at[0]));
    }
    for (unsigned i = 0; i < GF_ARRAY_LEN(holes); i++)
        munmap(holes[i], 3 * hole);
}

/* In a child, because the limit stays. A failed start leaves the address space to the program. */
static bool starts_none_and_takes_nothing(void)
{
    struct gf_pool *pool = pool_of(1021, 9);
    const size_t before = address_space();
    const struct rlimit limit = {before + ((size_t)11 << 19),
                                 RLIM_INFINITY}; /* five stacks and a half */

    return setrlimit(RLIMIT_AS, &limit) == 0 && gf_pool_start(pool) == ENOMEM &&
           gf_pool_has_failed(pool) && address_space() < before + ((size_t)1 << 20);
}

static void all_stacks_or_none(void **state)
{
    int status;
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip_because("a sanitizer needs address space of its own");
#endif
    const pid_t child = fork();
    if (child == 0)
        _exit(starts_none_and_takes_nothing() ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_real_time_owner_is_alone(void **state)
{
    const struct sched_param lowest = {.sched_priority = 1}, none = {0};
    struct count c;
    (void)state;
    prepare(&c);
    c.pause = 50;
    if (sched_setscheduler(0, SCHED_FIFO, &lowest))
        skip();
    gf_pool_run(pool_of(1002, 4), &c.job, PIECES); /* with_helpers has started it */
    sched_setscheduler(0, SCHED_OTHER, &none);
    assert_int_equal(c.by_helpers, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caller_alone),
        cmocka_unit_test(with_helpers),
        cmocka_unit_test(a_real_time_owner_is_alone),
        cmocka_unit_test(limits_and_waiting),
        cmocka_unit_test(started_by_a_batch_thread),
        cmocka_unit_test(failure_ends_it),
        cmocka_unit_test(several_callers),
        cmocka_unit_test(helpers_are_shared),
        cmocka_unit_test(low_priority_waits),
        cmocka_unit_test(helpers_finish_alone),
        cmocka_unit_test(jobs_without_owner),
        cmocka_unit_test(reused_jobs_without_owner),
        cmocka_unit_test(max_helpers_limits_wakeups),
        cmocka_unit_test(asleep_when_idle),
        cmocka_unit_test(default_threads),
        cmocka_unit_test(stacks_side_by_side),
        cmocka_unit_test(all_stacks_or_none),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
