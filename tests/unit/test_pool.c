/* SPDX-License-Identifier: Apache-2.0 */
#include "poolkit.h"

#include "engine/transfer/pool.h"

#include "engine/transfer/tuning.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

#define PIECES 200

struct count {
    struct gf_pieces job;
    _Atomic unsigned done[PIECES];
    pid_t owner;
    _Atomic unsigned by_helpers;
    bool odd;     /* a helper has unexpected properties */
    uint64_t bad; /* this piece fails */
    useconds_t pause;
    const struct gf_pieces *other;
    uint64_t first_seen; /* next piece of the other job when this job did its first piece */
    uint64_t seen;       /* and its last piece */
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

static bool count(struct gf_pieces *job, uint64_t piece)
{
    struct count *c = (struct count *)job;
    if (piece == c->bad)
        return false;
    while (piece > c->bad && gf_pieces_failed(job) == GF_PIECE_NONE)
        usleep(100); /* the thread with the failing piece may wait for a CPU */
    if (gettid() != c->owner) {
        gf_add_relaxed(&c->by_helpers, 1);
        check_helper(c);
    }
    if (c->pause)
        usleep(c->pause);
    if (c->other)
        c->seen = gf_load_relaxed(&c->other->next);
    if (piece == 0)
        c->first_seen = c->seen;
    gf_add_relaxed(&c->done[piece], 1);
    gf_pieces_notify(job);
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

static void caller_alone(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1001, 4); /* not started, so it has no helpers */
    struct count c;
    prepare(&c);
    assert_int_equal(gf_pool_run(pool, &c.job, PIECES), GF_PIECE_NONE);
    assert_each_once(&c, PIECES);
    assert_int_equal(c.by_helpers, 0);
}

/* Until helpers do at least one piece. On a busy machine, they may begin too late. */
static void run_with_helpers(struct gf_pool *pool, struct count *c)
{
    for (unsigned i = 0; i < 100; i++) {
        prepare(c);
        c->pause = 200;
        assert_int_equal(gf_pool_run(pool, &c->job, PIECES), GF_PIECE_NONE);
        assert_each_once(c, PIECES);
        if (c->by_helpers)
            return;
    }
    fail_msg("no helper did a piece");
}

static void with_helpers(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1002, 4);
    struct count c;
    assert_int_equal(gf_pool_start(pool), 0);
    assert_false(gf_pool_has_failed(pool));
    await_helpers(pool, 3);
    run_with_helpers(pool, &c);
    for (unsigned round = 0; round < 50; round++) {
        prepare(&c);
        assert_int_equal(gf_pool_run(pool, &c.job, PIECES), GF_PIECE_NONE);
        assert_each_once(&c, PIECES);
    }
    assert_int_equal(gf_pool_helpers(pool), 3);
    assert_int_equal(gf_pool_jobs(pool), 0);
}

static void by_helpers_only(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1002, 4);
    struct count c;
    for (unsigned round = 0; round < 50; round++) {
        prepare(&c);
        assert_int_equal(gf_pool_run_by_helpers(pool, &c.job, PIECES, UINT64_MAX), GF_PIECE_NONE);
        assert_each_once(&c, PIECES);
        assert_int_equal(c.by_helpers, PIECES);
    }
    prepare(&c);
    c.bad = 7;
    assert_int_equal(gf_pool_run_by_helpers(pool, &c.job, PIECES, UINT64_MAX), 7);
    prepare(&c); /* no helper claims a piece */
    assert_int_equal(gf_pool_run_by_helpers(pool_of(1001, 4), &c.job, PIECES, 1000000), 0);
    assert_each_once(&c, 0);
    assert_int_equal(gf_pool_jobs(pool), 0);
}

static void limits_and_waiting(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1002, 4);
    struct count c;
    prepare(&c);
    gf_pool_open(pool, &c.job, 0);
    assert_false(gf_pieces_help(&c.job));
    for (unsigned limit = 1; limit <= 20; limit++) { /* the calling thread does no piece */
        uint32_t seen = gf_pieces_events(&c.job);
        gf_pool_raise(pool, &c.job, limit);
        while (!gf_load_relaxed(&c.done[limit - 1])) {
            gf_pieces_wait(&c.job, seen);
            seen = gf_pieces_events(&c.job);
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

/* Helpers are SCHED_OTHER threads, even if the thread that starts them is not. */
static void *make_in_batch(void *arg)
{
    static const struct sched_param none;
    struct count c;
    assert_int_equal(sched_setscheduler(0, SCHED_BATCH, &none), 0);
    assert_int_equal(gf_pool_start(arg), 0);
    await_helpers(arg, 3);
    run_with_helpers(arg, &c);
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
    b.other = &a.job;
    gf_pool_open(pool, &a.job, PIECES);
    gf_pool_open(pool, &b.job, 20);
    AWAIT(gf_pieces_is_finished(&b.job));
    gf_pool_close(pool, &a.job);
    gf_pool_close(pool, &b.job);
    assert_each_once(&b, 20);
    const uint64_t of_a = b.seen - b.first_seen;
    assert_true(of_a <= 40);
    if (b.first_seen + 40 < PIECES) /* otherwise a may have ended before b */
        assert_true(of_a >= 10);
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
    AWAIT(gf_pieces_is_finished(&other.job));
    gf_pool_close(pool, &other.job);
    AWAIT(gf_load_relaxed(&low.job.next) >= 20);
    gf_pool_close(pool, &low.job);
    assert_each_once(&other, 40);
    assert_true(low.job.next >= 20);
    assert_true(other.seen < 20); /* with equal priority, it would be 40 */
}

static void helpers_finish_alone(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1003, 2);
    struct count c;
    prepare(&c);
    gf_pool_open(pool, &c.job, 30);
    AWAIT(gf_pieces_is_finished(&c.job));
    assert_true(gf_pieces_is_finished(&c.job));
    assert_int_equal(gf_pool_close(pool, &c.job), GF_PIECE_NONE);
    assert_each_once(&c, 30);
}

static _Atomic uint32_t ended;

static void end(struct gf_pieces *job)
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

static bool nothing(struct gf_pieces *job, uint64_t piece)
{
    return job->total > piece;
}

static void leave_place(struct gf_pieces *job)
{
    (void)job;
    gf_store_release(&place_taken, false);
}

static void *use_place(void *closure)
{
    static struct gf_pieces job;
    for (unsigned used = 0; used < 3000;) {
        if (gf_exchange_acquire(&place_taken, true)) {
            sched_yield();
            continue;
        }
        job =
            (struct gf_pieces){.work = nothing, .done = leave_place, .max_helpers = 1, .total = 3};
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
        struct gf_pieces job = {.work = nothing, .total = 200};
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

static void default_threads(void **state)
{
    (void)state;
    struct gf_cpus cpus = {0};
    for (unsigned i = 0; i < 2; i++)
        gf_set_add(&cpus, i);
    assert_int_equal(gf_pool_threads(gf_pool_get(1010, &cpus, &(struct gf_pool_size){0})), 2);
    assert_int_equal(
        gf_pool_threads(gf_pool_get(1011, &cpus, &(struct gf_pool_size){.quota = 0.5})), 1);
    assert_int_equal(gf_pool_threads(gf_pool_get(
                         1012, &cpus, &(struct gf_pool_size){.threads = 5, .quota = 0.5})),
                     5);
    for (unsigned i = 2; i < 64; i++)
        gf_set_add(&cpus, i);
    assert_int_equal(gf_pool_threads(gf_pool_get(1013, &cpus, &(struct gf_pool_size){0})),
                     GF_TUNE_THREADS);
    assert_int_equal(
        gf_pool_threads(gf_pool_get(1014, &cpus, &(struct gf_pool_size){.quota = 3.5})), 3);
    /*
     * Eight ranks share these CPUs. Each rank gets at least the number of threads that makes
     * staging faster than the driver.
     */
    assert_int_equal(
        gf_pool_threads(gf_pool_get(1015, &cpus, &(struct gf_pool_size){.rank_cpus = 8})), 8);
    assert_int_equal(
        gf_pool_threads(gf_pool_get(1016, &cpus, &(struct gf_pool_size){.rank_cpus = 1})), 4);
    assert_int_equal(gf_pool_threads(gf_pool_get(
                         1017, &cpus, &(struct gf_pool_size){.quota = 3, .rank_cpus = 1})),
                     3);
    assert_ptr_equal(gf_pool_get(1014, &cpus, &(struct gf_pool_size){0}),
                     gf_pool_get(1014, &cpus, &(struct gf_pool_size){.threads = 1, .quota = 1}));
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
    /* The test with_helpers has started this pool's helpers. */
    gf_pool_run(pool_of(1002, 4), &c.job, PIECES);
    sched_setscheduler(0, SCHED_OTHER, &none);
    assert_int_equal(c.by_helpers, 0);
}

/* A thread that becomes a real-time one within a series of jobs still gets helpers that do all pieces. */
static void a_real_time_owner_waits_for_helpers(void **state)
{
    const struct sched_param lowest = {.sched_priority = 1}, none = {0};
    struct count c;
    (void)state;
    uint64_t undone = 0;
    /* On a busy machine, they may begin too late. */
    for (unsigned i = 0; i < 100 && undone != GF_PIECE_NONE; i++) {
        prepare(&c);
        if (sched_setscheduler(0, SCHED_FIFO, &lowest))
            skip();
        undone = gf_pool_run_by_helpers(pool_of(1002, 4), &c.job, PIECES, GF_TUNE_READ_PATIENCE_NS);
        sched_setscheduler(0, SCHED_OTHER, &none);
    }
    assert_int_equal(undone, GF_PIECE_NONE);
    assert_int_equal(c.by_helpers, PIECES);
}

static volatile sig_atomic_t handled, wrong;

static void run_in_handler(int number)
{
    const int error = errno;
    struct count c;
    (void)number;
    prepare(&c);
    wrong += gf_pool_run(pool_of(1002, 4), &c.job, 4) != GF_PIECE_NONE;
    handled++;
    errno = error;
}

/* The handler interrupts the thread also while it holds the pool's lock. */
static void a_handler_runs_jobs(void **state)
{
    struct gf_pool *pool = pool_of(1002, 4);
    struct gf_pieces job = {0};
    struct count c;
    (void)state;
    gf_pool_open(pool, &job, 0); /* so that the pool exists, and the handler does not make it */
    gf_pool_close(pool, &job);
    signal(SIGALRM, run_in_handler);
    prepare(&c);
    for (int round = 0; round < 300; round++) {
        const struct itimerval once = {.it_value.tv_usec = 1 + round % 100};
        setitimer(ITIMER_REAL, &once, NULL);
        while (handled == round)
            if (round % 2) {
                gf_pool_run(pool, &c.job, 1);
            } else {
                gf_pool_open(pool, &c.job, 1);
                gf_pool_close(pool, &c.job);
            }
    }
    signal(SIGALRM, SIG_DFL);
    assert_int_equal(wrong, 0);
    assert_int_equal(gf_pool_jobs(pool), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caller_alone),
        cmocka_unit_test(with_helpers),
        cmocka_unit_test(by_helpers_only),
        cmocka_unit_test(a_real_time_owner_is_alone),
        cmocka_unit_test(a_real_time_owner_waits_for_helpers),
        cmocka_unit_test(a_handler_runs_jobs),
        cmocka_unit_test(limits_and_waiting),
        cmocka_unit_test(started_by_a_batch_thread),
        cmocka_unit_test(failure_ends_it),
        cmocka_unit_test(several_callers),
        cmocka_unit_test(helpers_are_shared),
        cmocka_unit_test(low_priority_waits),
        cmocka_unit_test(helpers_finish_alone),
        cmocka_unit_test(jobs_without_owner),
        cmocka_unit_test(reused_jobs_without_owner),
        cmocka_unit_test(default_threads),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
