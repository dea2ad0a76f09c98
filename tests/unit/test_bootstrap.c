/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The confidence interval of `gpufeed compare`: its position, and how often it claims a difference.
 */
#include "unit.h"

#include "tools/compare/compare.h"

#include <string.h>

#define NOISE 0.03 /* standard deviation between runs */
#define TRIALS 100
#define MOST 36

static double uniform(uint64_t *state)
{
    return (double)(gf_bootstrap_random(state) >> 11) * 0x1p-53;
}

/*
 * The counts below take 4 million resamples, and are the same in each build. A sanitizer sees the same code in the other
 * tests, and an emulator takes a minute.
 */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_CLAIMS
#endif

#ifdef COUNTS_CLAIMS
/* Returns an approximately normal number. The sum of 12 uniform numbers has variance 1. */
static double noisy(uint64_t *state)
{
    double sum = -6;
    for (unsigned i = 0; i < 12; i++)
        sum += uniform(state);
    return 1 + NOISE * sum;
}

/* Returns how many of TRIALS comparisons, each of `pairs` pairs, claim a difference. */
static unsigned claims(size_t pairs, double true_ratio)
{
    double before[MOST], after[MOST];
    struct gf_ratio found;
    uint64_t state = pairs;
    unsigned count = 0;

    for (unsigned trial = 0; trial < TRIALS; trial++) {
        for (size_t i = 0; i < pairs; i++) {
            before[i] = noisy(&state);
            after[i] = true_ratio * noisy(&state);
        }
        found = gf_bootstrap_ratio((const double *const[]){before, after},
                                   (const size_t[]){pairs, pairs}, true);
        assert_true(found.low <= found.ratio && found.ratio <= found.high);
        count += found.low > 1 || found.high < 1;
    }
    return count;
}

/* The random numbers have a fixed seed, so these counts are the same on every machine. */
static void test_claims(void **state)
{
    (void)state;
    assert_in_range(claims(6, 1), 0, 10);
    assert_in_range(claims(MOST, 1), 1, 10);
    assert_in_range(claims(MOST, 0.97), 90, TRIALS);
    assert_in_range(claims(6, 0.97), 5, 60); /* too few pairs for this difference */
}
#endif

static void test_equal_pairs(void **state)
{
    double before[6], after[6];
    struct gf_ratio found;

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        before[i] = 1 + i;
        after[i] = (1 + i) * 0.5;
    }
    found =
        gf_bootstrap_ratio((const double *const[]){before, after}, (const size_t[]){6, 6}, true);
    assert_true(found.ratio == 0.5 && found.low == 0.5 && found.high == 0.5);
}

/* A slow machine slows down both runs of a pair, which does not widen the interval. */
static void test_pairs_stay_together(void **state)
{
    static const double drift[] = {1, 2, 1, 3, 1, 2};
    double before[6], after[6];
    struct gf_ratio found, again;
    uint64_t numbers = 1;

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        before[i] = drift[i];
        after[i] = drift[i] * (0.9 + 0.001 * uniform(&numbers));
    }
    found =
        gf_bootstrap_ratio((const double *const[]){before, after}, (const size_t[]){6, 6}, true);
    assert_true(found.low > 0.899 && found.high < 0.902);
    again =
        gf_bootstrap_ratio((const double *const[]){before, after}, (const size_t[]){6, 6}, true);
    assert_memory_equal(&found, &again, sizeof(found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef COUNTS_CLAIMS
        cmocka_unit_test(test_claims),
#endif
        cmocka_unit_test(test_equal_pairs),
        cmocka_unit_test(test_pairs_stay_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
