/* SPDX-License-Identifier: Apache-2.0 */
#include "placing.h"

#include "host/guard.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

/* A simulated second: CPU seconds by which each sum increases. */
struct second {
    double run, delay, throttled, socket_idle, start_idle;
};

static const unsigned socket_cpus = 16, start_cpus = 48;

static void pass(struct gf_guard_reading *r, const struct second *s)
{
    r->now_ns += SECOND;
    r->run_ns += (uint64_t)(s->run * SECOND);
    r->delay_ns += (uint64_t)(s->delay * SECOND);
    r->throttled_ns += (uint64_t)(s->throttled * SECOND);
    r->socket_idle_ns += (uint64_t)(s->socket_idle * SECOND);
    r->start_idle_ns += (uint64_t)(s->start_idle * SECOND);
    r->socket_cpus = socket_cpus;
    r->start_cpus = start_cpus;
}

/*
 * Feeds the guard the same second repeatedly. Returns its first step, and the second of that step.
 */
static enum gf_guard_step watch(struct gf_guard *guard, struct gf_guard_reading *r,
                                const struct second *s, int seconds, int *ret_when)
{
    for (int i = 1; i <= seconds; i++) {
        pass(r, s);
        const enum gf_guard_step step = gf_guard_feed(guard, r);
        if (ret_when)
            *ret_when = i;
        if (step != gf_guard_stay)
            return step;
    }
    return gf_guard_stay;
}

static enum gf_guard_step watch_new(const struct second *s)
{
    struct gf_guard guard = {0};
    struct gf_guard_reading r = {.now_ns = 100 * SECOND};
    gf_guard_feed(&guard, &r);
    return watch(&guard, &r, s, 30, NULL);
}

/* The parent of the workers is idle, so the sums must include the workers' times. */
static void starved_workers_widen_step_by_step(void **state)
{
    (void)state;
    const struct second s = {.run = 8, .delay = 8, .socket_idle = 12, .start_idle = 40};
    struct gf_guard guard = {0};
    struct gf_guard_reading r = {.now_ns = 100 * SECOND};
    int when = 0;

    gf_guard_feed(&guard, &r);
    assert_int_equal(watch(&guard, &r, &s, 30, &when), gf_guard_to_socket);
    assert_int_equal(when, 5);
    assert_int_equal(watch(&guard, &r, &s, 30, &when), gf_guard_to_start);
    assert_int_equal(when, 5);
    assert_int_equal(watch(&guard, &r, &s, 30, NULL), gf_guard_stay);
}

static void quota_alone_does_not_widen(void **state)
{
    (void)state;
    const struct second s = {
        .run = 2, .delay = 6, .throttled = 6, .socket_idle = 16, .start_idle = 48};
    assert_int_equal(watch_new(&s), gf_guard_stay);
    /* More delay than throttling explains. */
    const struct second more = {
        .run = 2, .delay = 6, .throttled = 3, .socket_idle = 16, .start_idle = 48};
    assert_int_equal(watch_new(&more), gf_guard_to_socket);
}

static void full_machine_does_not_widen(void **state)
{
    (void)state;
    const struct second s = {.run = 8, .delay = 8, .socket_idle = 0.5, .start_idle = 0.9};
    assert_int_equal(watch_new(&s), gf_guard_stay);
    /* A few idle CPUs of many are noise of the scheduler. */
    const struct second noise = {.run = 8, .delay = 8, .socket_idle = 1.2, .start_idle = 4};
    assert_int_equal(watch_new(&noise), gf_guard_stay);
}

static void full_socket_goes_straight_to_start(void **state)
{
    (void)state;
    const struct second s = {.run = 8, .delay = 8, .socket_idle = 0, .start_idle = 30};
    assert_int_equal(watch_new(&s), gf_guard_to_start);
}

static void a_little_waiting_is_normal(void **state)
{
    (void)state;
    const struct second s = {.run = 8, .delay = 0.8, .socket_idle = 16, .start_idle = 48};
    assert_int_equal(watch_new(&s), gf_guard_stay);
    const struct second idle = {.run = 0.01, .delay = 0.05, .socket_idle = 16, .start_idle = 48};
    assert_int_equal(watch_new(&idle), gf_guard_stay);
}

static void short_bursts_do_not_widen(void **state)
{
    (void)state;
    const struct second burst = {.run = 8, .delay = 8, .socket_idle = 12, .start_idle = 40};
    const struct second calm = {.run = 4, .delay = 0, .socket_idle = 12, .start_idle = 40};
    struct gf_guard guard = {0};
    struct gf_guard_reading r = {.now_ns = 100 * SECOND};

    gf_guard_feed(&guard, &r);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(watch(&guard, &r, &burst, 4, NULL), gf_guard_stay);
        assert_int_equal(watch(&guard, &r, &calm, 1, NULL), gf_guard_stay);
    }
}

static void gaps_and_ended_threads(void **state)
{
    (void)state;
    const struct second s = {.run = 8, .delay = 8, .socket_idle = 12, .start_idle = 40};
    struct gf_guard guard = {0};
    struct gf_guard_reading r = {.now_ns = 100 * SECOND};

    gf_guard_feed(&guard, &r);
    assert_int_equal(watch(&guard, &r, &s, 4, NULL), gf_guard_stay);
    r.now_ns += 60 * SECOND; /* the process was stopped, so these seconds are unknown */
    r.delay_ns += 60 * SECOND;
    assert_int_equal(gf_guard_feed(&guard, &r), gf_guard_stay);
    assert_int_equal(watch(&guard, &r, &s, 4, NULL), gf_guard_stay);
    r.run_ns = r.delay_ns = 0; /* workers ended, so the sums lost their times */
    pass(&r, &(struct second){0});
    assert_int_equal(gf_guard_feed(&guard, &r), gf_guard_stay);
    assert_int_equal(watch(&guard, &r, &s, 4, NULL), gf_guard_stay);
}

/*
 * Starved workers are replaced every few seconds. A sum must not fall when a worker ends, nor jump
 * when a worker appears that has already run.
 */
static void threads_come_and_go(void **state)
{
    (void)state;
    static struct gf_guard_deltas past;
    uint64_t now = 100 * SECOND;

    memset(&past, 0, sizeof(past));
    gf_guard_deltas_begin(&past, now);
    /* Time before the first reading does not count. */
    gf_guard_deltas_count(&past, 10, 500 * SECOND, 90 * SECOND);
    assert_int_equal(past.run_ns + past.delay_ns, 0);
    for (int i = 1; i <= 20; i++) {
        gf_guard_deltas_begin(&past, now += SECOND);
        /* The parent, which uses no CPU. */
        gf_guard_deltas_count(&past, 10, 500 * SECOND, 90 * SECOND);
        const uint64_t age = 1 + (uint64_t)i % 3;
        gf_guard_deltas_count(&past, 1000 + i / 3, age * SECOND / 2, age * SECOND / 4);
        /* A second reading of the same thread adds nothing. */
        gf_guard_deltas_count(&past, 1000 + i / 3, age * SECOND / 2, age * SECOND / 4);
    }
    /*
     * Each of the 20 readings but the first adds half a second. The first worker is older than the
     * interval when it appears, so that reading adds nothing.
     */
    assert_int_equal(past.run_ns, 20 * SECOND / 2 - SECOND / 2);
    assert_int_equal(past.delay_ns, 20 * SECOND / 4 - SECOND / 4);
    /* A thread that appears and is older than the interval adds nothing. */
    gf_guard_deltas_begin(&past, now += SECOND);
    gf_guard_deltas_count(&past, 7, 3 * SECOND, 50 * SECOND);
    assert_int_equal(past.delay_ns, 20 * SECOND / 4 - SECOND / 4);
    /* A new thread has the same thread ID. */
    gf_guard_deltas_begin(&past, now += SECOND);
    gf_guard_deltas_count(&past, 7, SECOND / 2, SECOND / 2);
    assert_int_equal(past.delay_ns, 20 * SECOND / 4 + SECOND / 4);
}

static void more_threads_than_are_followed(void **state)
{
    (void)state;
    static struct gf_guard_deltas past;

    memset(&past, 0, sizeof(past));
    for (unsigned i = 0; i < 3; i++) {
        gf_guard_deltas_begin(&past, (100 + i) * SECOND);
        for (int tid = 1; tid <= 3 * GF_GUARD_TASKS; tid++)
            gf_guard_deltas_count(&past, tid, i * 1000, 0);
    }
    assert_int_equal(past.run_ns, 2 * 1000 * GF_GUARD_TASKS);
}

/*
 * A forced binding may have CPUs outside the start mask. A return to the start mask would remove
 * them, so the guard does not offer that step.
 */
static void steps_that_take_away_offer_nothing(void **state)
{
    (void)state;
    static struct gf_guard_deltas past;
    struct gf_guard_reading r;
    struct gf_cpus bound = {0}, other = {0};

    gf_set_add(&bound, 0);
    gf_set_add(&other, 1);
    gf_guard_read(&past, &bound, &other, &other, &r);
    assert_int_equal(r.socket_cpus + r.start_cpus, 0);
    gf_set_add(&other, 0);
    gf_guard_read(&past, &bound, &bound, &other, &r);
    assert_int_equal(r.socket_cpus, 0);
    assert_int_equal(r.start_cpus, sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 1 : 0);
}

static int allowed_cpus(struct gf_cpus *all)
{
    *all = (struct gf_cpus){0};
    assert_int_equal(sched_getaffinity(0, sizeof(*all), (cpu_set_t *)all), 0);
    return (int)gf_set_count(all);
}

static void *spin_until(void *stop)
{
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
        ;
    return NULL;
}

/*
 * Real workers: two children spin on one CPU while their parent sleeps. Checks only that the sums
 * include the children and the idle time of other CPUs, not durations.
 */
static void reads_starved_children(void **state)
{
    (void)state;
    struct gf_cpus all, bound = {0};
    static struct gf_guard_deltas past;
    struct gf_guard_reading before, after;
    pid_t child[2];

    if (allowed_cpus(&all) < 2)
        skip_because("needs a CPU to bind to and one to widen to");
    gf_set_add(&bound, (unsigned)gf_set_next(&all, 0));
    int *stop =
        mmap(NULL, sizeof(*stop), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sched_setaffinity(0, sizeof(bound), (const cpu_set_t *)&bound);
    for (int i = 0; i < 2; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            spin_until(stop);
            _exit(0);
        }
    }
    gf_guard_read(&past, &bound, &all, &all, &before);
    nanosleep(&(struct timespec){.tv_nsec = 400000000}, NULL);
    gf_guard_read(&past, &bound, &all, &all, &after);
    *stop = 1;
    for (int i = 0; i < 2; i++)
        waitpid(child[i], NULL, 0);
    sched_setaffinity(0, sizeof(all), (const cpu_set_t *)&all);
    munmap(stop, sizeof(*stop));
    assert_int_equal(after.start_cpus, gf_set_count(&all) - 1);
    assert_int_equal(after.socket_cpus, after.start_cpus);
    /* Two spinners on one CPU: each waits about as long as it runs. */
    assert_true(after.run_ns > before.run_ns);
    assert_true(after.delay_ns - before.delay_ns > (after.run_ns - before.run_ns) / 2);
    assert_true(after.start_idle_ns >= before.start_idle_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starved_workers_widen_step_by_step),
        cmocka_unit_test(quota_alone_does_not_widen),
        cmocka_unit_test(full_machine_does_not_widen),
        cmocka_unit_test(full_socket_goes_straight_to_start),
        cmocka_unit_test(a_little_waiting_is_normal),
        cmocka_unit_test(short_bursts_do_not_widen),
        cmocka_unit_test(gaps_and_ended_threads),
        cmocka_unit_test(threads_come_and_go),
        cmocka_unit_test(more_threads_than_are_followed),
        cmocka_unit_test(steps_that_take_away_offer_nothing),
        cmocka_unit_test(reads_starved_children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
