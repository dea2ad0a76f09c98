/* SPDX-License-Identifier: Apache-2.0 */
/* The CPUs of helpers when the program narrows its mask. */
#include "unit.h"

#include "engine/machine/tasks.h"
#include "engine/transfer/pool/pool.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
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

/* If one CPU is left, one thread copies. */
static void narrowed_pools_use_fewer_threads(void **state)
{
    struct gf_cpus both = {0}, one = {0};
    (void)state;

    gf_set_add(&both, 0);
    gf_set_add(&both, 1);
    gf_set_add(&one, 1);
    struct gf_pool *pool = gf_pool_get(902, &both, &(struct gf_pool_size){0});
    assert_int_equal(gf_pool_threads(pool), 2);
    gf_pools_follow(&one);
    assert_int_equal(gf_pool_threads(pool), 1);
    gf_pools_follow(&both);
    assert_int_equal(gf_pool_threads(pool), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(helpers_follow_the_program),
        cmocka_unit_test(narrowed_pools_use_fewer_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
