/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/counters.h"

__thread struct gf_thread gf_thread;
struct gf_counter gf_counters[GF_COUNTER_SETS][gf_hook_count];

static const char *const names[gf_hook_count] = {
#define GF_CU(symbol) #symbol,
#define GF_LIBC(symbol) #symbol,
#include "hook/hooks.def"
};

unsigned gf_counters_join(void)
{
    static unsigned joined;
    const unsigned before = __atomic_fetch_add(&joined, 1, __ATOMIC_RELAXED);
    return gf_thread.counters = before % GF_COUNTER_SETS + 1;
}

static void add(const struct gf_counter *counter, struct gf_tally *ret)
{
    const uint64_t calls = __atomic_load_n(&counter->calls, __ATOMIC_RELAXED);
    ret->calls += calls;
    ret->copies += calls + __atomic_load_n(&counter->more, __ATOMIC_RELAXED);
    ret->bytes += __atomic_load_n(&counter->bytes, __ATOMIC_RELAXED);
    ret->offered += __atomic_load_n(&counter->offered, __ATOMIC_RELAXED);
    ret->offered_bytes += __atomic_load_n(&counter->offered_bytes, __ATOMIC_RELAXED);
    ret->unfit += __atomic_load_n(&counter->unfit, __ATOMIC_RELAXED);
    ret->unfit_bytes += __atomic_load_n(&counter->unfit_bytes, __ATOMIC_RELAXED);
}

void gf_counters_each(gf_tally_see *see, void *closure)
{
    for (unsigned i = 0; i < gf_hook_count; i++) {
        struct gf_tally tally = {.name = names[i]};
        for (unsigned set = 0; set < GF_COUNTER_SETS; set++)
            add(&gf_counters[set][i], &tally);
        if (!see(closure, &tally))
            return;
    }
}
