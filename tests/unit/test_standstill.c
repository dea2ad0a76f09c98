/* SPDX-License-Identifier: Apache-2.0 */
/* When a program stands still, and where: engine/gputime/standstill.c. */
#include "unit.h"

#include "config/options.h"
#include "engine/gputime/standstill.h"

#define SECOND UINT64_C(1000000000)
#define LIMIT 5u

static const struct gf_python_line nowhere, shard = {"train.py", "read_shard", 8};
static const struct gf_options options = {.standstill = LIMIT};
static struct gf_standstill told;
static uint64_t now;

static void count_steps(struct gf_step_count *ret)
{
    *ret = (struct gf_step_count){.ended = 9, .current = 10};
}

static void time_steps(struct gf_step_times *ret)
{
    *ret = (struct gf_step_times){
        .source = gf_step_marks, .steps = 9, .last_ns = SECOND, .p50_ns = SECOND / 100};
}

static bool is_traced(void)
{
    return false;
}

static void tell(const struct gf_standstill *standstill)
{
    told = *standstill;
}

static const struct gf_preload preload = {
    .options = &options, .step_count = count_steps, .step_times = time_steps};

/* A step ends. Then samples have this cause, until the limit and a second more have passed. */
static void stand(enum gf_host_cause cause, const struct gf_python_line *at)
{
    told = (struct gf_standstill){0};
    gf_standstill_open(&preload, is_traced, tell);
    now += SECOND;
    gf_standstill_see(now, true, gf_host_other, &nowhere);
    for (const uint64_t end = now + (LIMIT + 1) * SECOND; now < end; now += SECOND / 20)
        gf_standstill_see(now, false, cause, at);
}

static void the_line_is_the_last_that_was_read(void **state)
{
    (void)state;
    stand(gf_host_sleep, &shard);
    assert_true(told.ongoing);
    assert_int_equal(told.step, 10);
    assert_int_equal(told.at.line, 8);
    /* A thread that polls may wake up while its frames are read. */
    told = (struct gf_standstill){0};
    now += SECOND;
    gf_standstill_see(now, true, gf_host_other, &nowhere);
    for (unsigned i = 0; i < 20 * (LIMIT + 1); i++, now += SECOND / 20)
        gf_standstill_see(now, false, gf_host_sleep, i % 20 == 7 ? &shard : &nowhere);
    assert_true(told.ongoing);
    assert_int_equal(told.at.line, 8);
    stand(gf_host_file, &nowhere); /* that line had another cause */
    assert_true(told.ongoing);
    assert_int_equal(told.at.line, 0);
}

/* On a busy machine, a thread that polls lacks a CPU most of the time, as one that computes does. */
static void a_thread_without_a_cpu_does_what_it_did(void **state)
{
    static const enum gf_host_cause causes[] = {gf_host_sleep, gf_host_computing};
    (void)state;
    for (unsigned i = 0; i < GF_ARRAY_LEN(causes); i++) {
        told = (struct gf_standstill){0};
        now += SECOND;
        gf_standstill_see(now, true, gf_host_other, &nowhere);
        for (unsigned k = 0; k < 20 * (LIMIT + 1); k++, now += SECOND / 20)
            gf_standstill_see(now, false, k % 30 ? gf_host_preempted : causes[i], &shard);
        assert_int_equal(told.ongoing, causes[i] == gf_host_sleep);
    }
}

static void a_semaphore_without_a_line_may_be_a_queue(void **state)
{
    (void)state;
    stand(gf_host_lock, &nowhere);
    assert_false(told.ongoing);
    stand(gf_host_lock, &shard);
    assert_true(told.ongoing);
    assert_int_equal(told.cause, gf_host_lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_is_the_last_that_was_read),
        cmocka_unit_test(a_thread_without_a_cpu_does_what_it_did),
        cmocka_unit_test(a_semaphore_without_a_line_may_be_a_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
