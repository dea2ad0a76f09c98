/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/worth.h"

#include "transfer/setup.h"
#include "transfer/tuning.h"

static size_t least[gf_direction_count];
static const size_t least_of_few[] = {[gf_direction_h2d] = GF_TUNE_MIN_FEW_H2D,
                                      [gf_direction_d2h] = GF_TUNE_MIN_FEW_D2H};
static unsigned most_threads; /* atomic: of all pools met so far; 0: none */

bool gf_worth_is_automatic(void)
{
    return gf_setup.options->stage_min == GF_SIZE_AUTO;
}

void gf_worth_start(void)
{
    const size_t said = gf_setup.options->stage_min;
    least[gf_direction_h2d] = gf_worth_is_automatic() ? GF_TUNE_MIN_H2D : said;
    least[gf_direction_d2h] = gf_worth_is_automatic() ? GF_TUNE_MIN_D2H : said;
}

size_t gf_worth_least(enum gf_direction direction)
{
    return least[direction];
}

/* A single thread makes nothing faster; who asks for it gets it. */
static bool is_worth(unsigned threads, enum gf_direction direction, uint64_t bytes, enum gf_forward *ret_why)
{
    const bool few = threads < GF_TUNE_FEW_THREADS && gf_worth_is_automatic();
    const size_t from = few ? least_of_few[direction] : least[direction];

    if (from == SIZE_MAX || (threads == 1 && gf_setup.options->stage_threads != 1)) {
        *ret_why = gf_forward_few_threads;
        return false;
    }
    *ret_why = gf_forward_small;
    return bytes >= from;
}

static void meet(unsigned threads)
{
    unsigned most = __atomic_load_n(&most_threads, __ATOMIC_RELAXED);
    while (most < threads && !__atomic_compare_exchange_n(&most_threads, &most, threads, true, __ATOMIC_RELAXED,
                                                          __ATOMIC_RELAXED))
        continue;
}

bool gf_worth_with(unsigned threads, enum gf_direction direction, uint64_t bytes, enum gf_forward *ret_why)
{
    meet(threads);
    return is_worth(threads, direction, bytes, ret_why);
}

bool gf_worth_asking(enum gf_direction direction, uint64_t bytes, enum gf_forward *ret_why)
{
    static __thread uint8_t passed;
    const unsigned most = __atomic_load_n(&most_threads, __ATOMIC_RELAXED);

    return !most || most >= GF_TUNE_FEW_THREADS || ++passed == 0 || is_worth(most, direction, bytes, ret_why);
}
