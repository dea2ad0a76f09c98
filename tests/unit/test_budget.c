/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the rule how much freed memory the heap keeps. */
#include "unit.h"

#include "preload/heap/budget.h"

#define MIB (UINT64_C(1) << 20)
#define SECOND UINT64_C(1000000000)
#define START (64 * MIB)

static struct gf_budget budget;
static uint64_t now_ns;

static int begin(void **state)
{
    (void)state;
    budget = (struct gf_budget){0};
    now_ns = SECOND;
    gf_budget_begin(&budget, START, INT64_MAX, now_ns);
    return 0;
}

static void use(uint64_t mib)
{
    gf_budget_used(&budget, mib * MIB);
}

static void leave(uint64_t mib)
{
    gf_budget_unused(&budget, mib * MIB);
}

static uint64_t allowed(void)
{
    return gf_budget_allowed(&budget, now_ns) / MIB;
}

static void a_first_climb_earns_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        use(10);
    assert_int_equal(allowed(), 64);
    leave(1000);
    assert_int_equal(allowed(), 64);
}

static void memory_that_comes_back_is_earned(void **state)
{
    (void)state;
    use(300);
    leave(200);
    use(150); /* 150 of the 200 MiB came back */
    leave(150);
    assert_int_equal(allowed(), 64 + 150);
    use(400); /* only the part up to the old peak came back */
    leave(500);
    assert_int_equal(allowed(), 64 + 200);
}

static void what_is_earned_ends_after_two_windows(void **state)
{
    (void)state;
    use(300);
    leave(300);
    use(300);
    leave(300);
    assert_int_equal(allowed(), 64 + 300);
    now_ns += 11 * SECOND;
    assert_int_equal(allowed(), 64 + 300);
    now_ns += 11 * SECOND;
    assert_int_equal(allowed(), 64);
    use(300);
    leave(300);
    use(300);
    leave(300);
    assert_int_equal(allowed(), 64 + 300);
    now_ns += 60 * SECOND; /* no check in between */
    assert_int_equal(allowed(), 64);
}

/* The fall was in an earlier window, so the memory in use now is not a rise. */
static void an_old_fall_earns_nothing(void **state)
{
    (void)state;
    use(300);
    leave(300);
    use(200);
    now_ns += 30 * SECOND;
    assert_int_equal(allowed(), 64);
    use(1);
    leave(1);
    assert_int_equal(allowed(), 64);
}

static void live_and_kept_stay_below_the_peak(void **state)
{
    (void)state;
    use(500);
    leave(400);
    use(400);
    leave(400);
    assert_int_equal(allowed(), 64 + 400);
    use(350);
    assert_int_equal(allowed(), 50 + 64);
    use(100); /* a new peak: only the start budget is on top of it */
    assert_int_equal(allowed(), 64);
}

static void earnings_have_a_limit(void **state)
{
    (void)state;
    gf_budget_begin(&budget, 4 * MIB, 64 * MIB, now_ns);
    use(300);
    leave(300);
    use(300);
    leave(300);
    assert_int_equal(allowed(), 4 + 64);
}

/* It cannot return memory while it sleeps, also if other memory is live. */
static void a_process_without_an_engine_earns_little(void **state)
{
    (void)state;
    gf_budget_begin(&budget, 8 * MIB, 0, now_ns);
    use(300);
    leave(300);
    use(300);
    leave(100);
    use(100);
    leave(60);
    assert_int_equal(allowed(), 8);
}

static void keeps_as_much_as_glibc(void **state)
{
    (void)state;
    gf_budget_begin(&budget, 8 * MIB, 0, now_ns);
    for (int i = 0; i < 2; i++) {
        use(16);
        leave(16);
        gf_budget_freed_block(&budget, 16 * MIB);
    }
    assert_int_equal(allowed(), 8 + 16);
    use(16);
    use(16);
    leave(32); /* glibc returns the top of its heap from 32 MiB on */
    assert_int_equal(allowed(), 8);
    gf_budget_begin(&budget, 8 * MIB, 0, now_ns);
    for (int i = 0; i < 2; i++) {
        use(40);
        leave(40);
        gf_budget_freed_block(&budget, 40 * MIB);
    }
    assert_int_equal(allowed(), 8);
    gf_store_relaxed(&budget.trim, -1); /* a forked child */
    gf_budget_begin(&budget, 4 * MIB, 0, now_ns);
    for (int i = 0; i < 2; i++) {
        use(16);
        leave(16);
        gf_budget_freed_block(&budget, 16 * MIB);
    }
    assert_int_equal(allowed(), 4);
}

/* As glibc keeps what is free between live blocks. */
static void keeps_more_beside_live_blocks(void **state)
{
    (void)state;
    gf_budget_begin(&budget, 8 * MIB, 0, now_ns);
    use(40);
    leave(6);
    use(6);
    leave(6);
    assert_int_equal(allowed(), 8 + 6);
    leave(9);
    use(9);
    leave(9);
    assert_int_equal(allowed(), 8 + 8); /* 9 MiB came back, and the limit is 8 */
    gf_store_relaxed(&budget.trim, -1); /* a forked child */
    assert_int_equal(allowed(), 8);
    gf_store_relaxed(&budget.trim, 0);
    leave(1); /* 16 MiB below the peak */
    assert_int_equal(allowed(), 8);
    leave(24);
    gf_budget_begin(&budget, 8 * MIB, 0, now_ns);
    use(12);
    leave(10);
    use(10);
    leave(10);
    assert_int_equal(allowed(), 8 + 1); /* at most half of the live memory */
    leave(2);
    assert_int_equal(allowed(), 8);
}

/* What lies below a live block of glibc's heap stays as long as it comes back; the rest obeys the trim limit. */
static void keeps_holes(void **state)
{
    (void)state;
    gf_budget_begin(&budget, 8 * MIB, 0, now_ns);
    gf_budget_freed_block(&budget, 6 * MIB);
    use(24);
    leave(18);
    gf_store_relaxed(&budget.holes, 18 * MIB);
    assert_int_equal(allowed(), 8); /* nothing came back yet */
    use(18);
    leave(18);
    assert_int_equal(allowed(), 8 + 18);
    gf_store_relaxed(&budget.holes, 0); /* the live block above is gone */
    assert_int_equal(allowed(), 8);
    gf_store_relaxed(&budget.holes, 12 * MIB);
    assert_int_equal(allowed(), 8 + 18); /* and 6 MiB at the top */
    use(100);
    leave(90);
    use(90);
    leave(90);
    gf_store_relaxed(&budget.holes, 80 * MIB);
    assert_int_equal(allowed(), 8 + GF_BUDGET_HOLES_MAX / MIB);
}

static void holes_count_only_without_an_engine(void **state)
{
    (void)state;
    gf_add_relaxed(&budget.pool, (int64_t)(9 * MIB));
    assert_false(gf_budget_counts_holes(&budget));
    gf_budget_begin(&budget, 8 * MIB, 0, now_ns);
    assert_true(gf_budget_counts_holes(&budget));
    gf_store_relaxed(&budget.trim, -1); /* a forked child */
    assert_false(gf_budget_counts_holes(&budget));
    gf_store_relaxed(&budget.trim, 0);
    gf_sub_relaxed(&budget.pool, (int64_t)(1 * MIB));
    assert_false(gf_budget_counts_holes(&budget));
}

static void the_excess_is_of_pages_and_mappings_together(void **state)
{
    (void)state;
    gf_add_relaxed(&budget.heap, (int64_t)(40 * MIB));
    gf_add_relaxed(&budget.pool, (int64_t)(20 * MIB));
    assert_false(gf_budget_needs_check(&budget));
    gf_add_relaxed(&budget.pool, (int64_t)(20 * MIB));
    assert_true(gf_budget_needs_check(&budget));
    assert_int_equal(gf_budget_excess(&budget, now_ns), 16 * MIB);
    gf_store_relaxed(&budget.unmanaged, true); /* jemalloc's pages are the user's affair */
    assert_int_equal(gf_budget_excess(&budget, now_ns), 0);
    assert_true(gf_budget_needs_check(&budget)); /* it may wake the engine */
    gf_add_relaxed(&budget.pool, (int64_t)(30 * MIB));
    assert_int_equal(gf_budget_excess(&budget, now_ns), 6 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_first_climb_earns_nothing, begin),
        cmocka_unit_test_setup(memory_that_comes_back_is_earned, begin),
        cmocka_unit_test_setup(what_is_earned_ends_after_two_windows, begin),
        cmocka_unit_test_setup(an_old_fall_earns_nothing, begin),
        cmocka_unit_test_setup(live_and_kept_stay_below_the_peak, begin),
        cmocka_unit_test_setup(earnings_have_a_limit, begin),
        cmocka_unit_test_setup(a_process_without_an_engine_earns_little, begin),
        cmocka_unit_test_setup(keeps_as_much_as_glibc, begin),
        cmocka_unit_test_setup(keeps_more_beside_live_blocks, begin),
        cmocka_unit_test_setup(keeps_holes, begin),
        cmocka_unit_test_setup(holes_count_only_without_an_engine, begin),
        cmocka_unit_test_setup(the_excess_is_of_pages_and_mappings_together, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
