/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/compare/bootstrap.h"

#include "base/base.h"

#include <errno.h>
#include <stdlib.h>

#define RESAMPLES 20000
#define SEED UINT64_C(1)

/* splitmix64, with its published constants */
uint64_t gf_bootstrap_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/*
 * Returns the share of resamples that are below the interval, which is also the share above it.
 * Approximates Phi(-sqrt(n / (n - 1)) * t), with Student's t for n - 1 degrees of freedom. Below 12
 * pairs the share is smaller, because few different resamples exist. If equal arms are compared and
 * the noise is normal, 5 to 6 % of the intervals exclude the ratio 1.
 */
static double tail(size_t count)
{
    const double n = (double)count;
    return gf_max(0.0005, 0.025 - 0.2 / n + 0.25 / (n * n));
}

static double resample(const double *before, const double *after, size_t count, uint64_t *state)
{
    double sum_before = 0, sum_after = 0;

    for (size_t i = 0; i < count; i++) {
        const size_t at = gf_bootstrap_random(state) % count;
        sum_before += before[at];
        sum_after += after[at];
    }
    return sum_after / sum_before;
}

int gf_bootstrap_ratio(const double *before, const double *after, size_t count,
                       struct gf_ratio *ret)
{
    double *ratios = malloc(RESAMPLES * sizeof(*ratios));
    double sum_before = 0, sum_after = 0;
    uint64_t state = SEED;

    if (!ratios)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        sum_before += before[i];
        sum_after += after[i];
    }
    for (size_t i = 0; i < RESAMPLES; i++)
        ratios[i] = resample(before, after, count, &state);
    qsort(ratios, RESAMPLES, sizeof(*ratios), gf_by_double);
    const size_t cut = (size_t)(tail(count) * RESAMPLES);
    *ret = (struct gf_ratio){sum_after / sum_before, ratios[cut], ratios[RESAMPLES - 1 - cut]};
    free(ratios);
    return 0;
}
