/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "own_maps.h"
#include "transfer/pool.h"
#include "transfer/tuning.h"

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

struct count {
    struct gf_job job;
    unsigned done[PIECES];
    pid_t owner;
    unsigned by_helpers;
    bool odd; /* a helper was not what a helper has to be */
    uint64_t bad; /* fails */
    useconds_t pause;
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
    while (piece > c->bad && __atomic_load_n(&job->failed, __ATOMIC_RELAXED) == GF_PIECE_NONE)
        usleep(100); /* who has the bad one may have to wait for a CPU */
    if (gettid() != c->owner) {
        __atomic_fetch_add(&c->by_helpers, 1, __ATOMIC_RELAXED);
        check_helper(c);
    }
    if (c->pause)
        usleep(c->pause);
    __atomic_fetch_add(&c->done[piece], 1, __ATOMIC_RELAXED);
    gf_pool_ring(job);
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

/* All tests use pools of their own: by node numbers that no machine has. */
static struct gf_pool *pool_of(int node, unsigned threads)
{
    static const struct gf_cpus any;
    struct gf_pool *pool = gf_pool_get(node, &any, threads, 0);
    assert_non_null(pool);
    return pool;
}

static void await_helpers(const struct gf_pool *pool, unsigned number)
{
    for (unsigned i = 0; i < 5000 && gf_pool_helpers(pool) < number; i++)
        usleep(1000);
    assert_int_equal(gf_pool_helpers(pool), number);
}

static void alone(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1001, 4); /* not started: no helper will ever come */
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
    assert_false(gf_pool_is_refused(pool));
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
    assert_false(gf_pool_help(&c.job));
    for (unsigned limit = 1; limit <= 20; limit++) { /* the helpers do all of it */
        uint32_t seen = gf_pool_bell(&c.job);
        gf_pool_raise(pool, &c.job, limit);
        while (!__atomic_load_n(&c.done[limit - 1], __ATOMIC_RELAXED)) {
            gf_pool_wait(&c.job, seen);
            seen = gf_pool_bell(&c.job);
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
            assert_int_equal(c.done[i], 1); /* what comes before is whole */
        assert_int_equal(c.done[7], 0);
        assert_true(c.job.next <= 11); /* nothing was begun behind it but what was under way, of four threads */
    }
}

/* Helpers are ordinary threads, whoever has them made: the maker may run by other rules. */
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

static void made_by_a_batch_thread(void **state)
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

/* Two jobs whose owners do nothing: the helper goes to and fro between them. */
static void helpers_are_shared(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1003, 2);
    struct count a, b;
    assert_int_equal(gf_pool_start(pool), 0);
    prepare(&a);
    prepare(&b);
    a.pause = b.pause = 500;
    gf_pool_open(pool, &a.job, PIECES);
    gf_pool_open(pool, &b.job, PIECES);
    for (unsigned i = 0; i < 5000 && __atomic_load_n(&b.job.next, __ATOMIC_RELAXED) < 20; i++)
        usleep(1000);
    gf_pool_close(pool, &a.job);
    gf_pool_close(pool, &b.job);
    const int64_t apart = (int64_t)a.job.next - (int64_t)b.job.next;
    assert_true(b.job.next >= 20);
    assert_true(apart >= -20 && apart <= 20); /* a was alone for as long as b was not yet open */
}

static void patience(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1003, 2);
    struct count patient, other;
    prepare(&patient);
    prepare(&other);
    patient.job.patient = true;
    patient.pause = other.pause = 500;
    gf_pool_open(pool, &other.job, 40);
    gf_pool_open(pool, &patient.job, PIECES);
    for (unsigned i = 0; i < 5000 && !gf_pool_finished(&other.job); i++)
        usleep(1000);
    const uint64_t meanwhile = __atomic_load_n(&patient.job.next, __ATOMIC_RELAXED);
    gf_pool_close(pool, &other.job);
    for (unsigned i = 0; i < 5000 && __atomic_load_n(&patient.job.next, __ATOMIC_RELAXED) < 20; i++)
        usleep(1000);
    gf_pool_close(pool, &patient.job);
    assert_each_once(&other, 40);
    assert_true(patient.job.next >= 20);
    assert_true(meanwhile < 20); /* by turns it would have been 40 */
}

static void left_to_the_helpers(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1003, 2);
    struct count c;
    prepare(&c);
    gf_pool_open(pool, &c.job, 30);
    for (unsigned i = 0; i < 5000 && !gf_pool_finished(&c.job); i++)
        usleep(1000);
    assert_true(gf_pool_finished(&c.job));
    assert_int_equal(gf_pool_close(pool, &c.job), GF_PIECE_NONE);
    assert_each_once(&c, 30);
}

static uint32_t ended;

static void end(struct gf_job *job)
{
    const struct count *c = (struct count *)job;
    __atomic_fetch_add(&ended, gettid() == c->owner ? 100 : 1, __ATOMIC_SEQ_CST);
}

static void nobodys(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1003, 2);
    static struct count c[3];
    for (unsigned i = 0; i < 3; i++) {
        prepare(&c[i]);
        c[i].job.gone = end;
        c[i].job.most = i;
        c[i].job.patient = i == 1;
        c[i].bad = i == 2 ? 10 : GF_PIECE_NONE;
        gf_pool_open(pool, &c[i].job, 30);
    }
    for (unsigned i = 0; i < 5000 && __atomic_load_n(&ended, __ATOMIC_SEQ_CST) < 3; i++)
        usleep(1000);
    assert_int_equal(ended, 3);
    assert_int_equal(gf_pool_jobs(pool), 0); /* or idle helpers would look for more for longer */
    assert_each_once(&c[0], 30);
    assert_each_once(&c[1], 30);
    assert_int_equal(c[2].job.failed, 10);
}

static uint32_t place_taken;

static bool nothing(struct gf_job *job, uint64_t piece)
{
    return job->total > piece;
}

static void leave_place(struct gf_job *job)
{
    (void)job;
    __atomic_store_n(&place_taken, 0, __ATOMIC_RELEASE);
}

static void *use_place(void *closure)
{
    static struct gf_job job;
    for (unsigned used = 0; used < 3000;) {
        if (__atomic_exchange_n(&place_taken, 1, __ATOMIC_ACQUIRE)) {
            sched_yield();
            continue;
        }
        job = (struct gf_job){.work = nothing, .gone = leave_place, .most = 1, .total = 3};
        gf_pool_open(closure, &job, 3);
        used++;
    }
    return NULL;
}

static bool places_over; /* atomic */

/* So that helpers go round the jobs, and need not be called. */
static void *keep_awake(void *pool)
{
    while (!__atomic_load_n(&places_over, __ATOMIC_RELAXED)) {
        struct gf_job job = {.work = nothing, .total = 200};
        gf_pool_run(pool, &job, 200);
    }
    return NULL;
}

/* When it is done its place is somebody else's, while who opened it may be in the midst of that: sanitize.sh sees. */
static void nobodys_place(void **state)
{
    (void)state;
    struct gf_pool *pool = pool_of(1002, 4);
    pthread_t thread[3];
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, i ? use_place : keep_awake, pool), 0);
    for (unsigned i = 1; i < 3; i++)
        pthread_join(thread[i], NULL);
    __atomic_store_n(&places_over, true, __ATOMIC_RELAXED);
    pthread_join(thread[0], NULL);
    for (unsigned i = 0; i < 5000 && gf_pool_jobs(pool); i++)
        usleep(1000);
    assert_int_equal(gf_pool_jobs(pool), 0);
}

/* Of a helper; 0 of any other thread: a sanitizer has one, too, that wakes up by itself. */
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

/* The same, once nobody looks for more. */
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
static bool inside;

static bool hold(struct gf_job *job, uint64_t piece)
{
    char word;
    (void)job;
    __atomic_store_n(&inside, true, __ATOMIC_RELAXED);
    return piece > 0 || read(held_by[0], &word, 1) == 1;
}

static void no_more_come_than_may_enter(void **state)
{
    (void)state;
    struct gf_job job = {.work = hold, .most = 1, .total = 20};
    struct gf_pool *pool = pool_of(1005, 4);

    assert_int_equal(pipe(held_by), 0);
    assert_int_equal(gf_pool_start(pool), 0);
    await_helpers(pool, 3);
    naps_in_the_end();
    gf_pool_open(pool, &job, 1);
    while (!__atomic_load_n(&inside, __ATOMIC_RELAXED))
        usleep(1000);
    const unsigned long before = naps_in_the_end();
    for (uint64_t limit = 2; limit <= 20; limit++) {
        gf_pool_raise(pool, &job, limit);
        usleep(1000);
    }
    assert_int_equal(naps_in_the_end(), before);
    assert_int_equal(write(held_by[1], "x", 1), 1);
    while (gf_pool_help(&job))
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
    assert_true(cpu_us() - before < 30000); /* one spinning helper would take ten times that */
}

static void as_many_as_pay(void **state)
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

/* Each helper says once where its stack is. */
static struct stacks {
    struct gf_job job;
    unsigned told;
    uintptr_t at[8];
} stacks;

static bool tell_stack(struct gf_job *job, uint64_t piece)
{
    char here;
    (void)piece;
    stacks.at[__atomic_fetch_add(&stacks.told, 1, __ATOMIC_RELAXED)] = (uintptr_t)&here;
    while (__atomic_load_n(&stacks.told, __ATOMIC_RELAXED) < 4)
        usleep(100);
    gf_pool_ring(job);
    return true;
}

static unsigned mapping_of(uintptr_t address)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    uintptr_t from, to;
    unsigned line = 1;
    assert_non_null(maps);
    while (fscanf(maps, "%" SCNxPTR "-%" SCNxPTR "%*[^\n]", &from, &to) == 2 && (address < from || address >= to))
        line++;
    fclose(maps);
    return line;
}

/* Of one mapping, also where the driver's mappings have left holes that one stack just fits into. */
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
    while (!gf_pool_finished(&stacks.job))
        usleep(100);
    gf_pool_close(pool, &stacks.job);
    for (unsigned i = 1; i < 4; i++) {
        assert_true(stacks.at[i] >> 20 != stacks.at[0] >> 20);
        assert_int_equal(mapping_of(stacks.at[i]), mapping_of(stacks.at[0]));
    }
    for (unsigned i = 0; i < GF_ARRAY_LEN(holes); i++)
        munmap(holes[i], 3 * hole);
}

/* In a child, as the limit is for good. What is left of it is the program's. */
static bool starts_none_and_takes_nothing(void)
{
    struct gf_pool *pool = pool_of(1021, 9);
    const size_t before = address_space();
    const struct rlimit limit = {before + ((size_t)11 << 19), RLIM_INFINITY}; /* five stacks and a half */

    return setrlimit(RLIMIT_AS, &limit) == 0 && gf_pool_start(pool) == ENOMEM && gf_pool_is_refused(pool) &&
           address_space() < before + ((size_t)1 << 20);
}

static void none_where_there_is_not_room_for_all(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),
        cmocka_unit_test(with_helpers),
        cmocka_unit_test(limits_and_waiting),
        cmocka_unit_test(made_by_a_batch_thread),
        cmocka_unit_test(failure_ends_it),
        cmocka_unit_test(several_callers),
        cmocka_unit_test(helpers_are_shared),
        cmocka_unit_test(patience),
        cmocka_unit_test(left_to_the_helpers),
        cmocka_unit_test(nobodys), cmocka_unit_test(nobodys_place),
        cmocka_unit_test(no_more_come_than_may_enter),
        cmocka_unit_test(asleep_when_idle),
        cmocka_unit_test(as_many_as_pay),
        cmocka_unit_test(stacks_side_by_side),
        cmocka_unit_test(none_where_there_is_not_room_for_all),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
