/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/step.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "preload/trace/step_log.h"
#include "preload/trace/step_times.h"

static _Atomic uint64_t current, ended;
/* Times of the first and of the last mark; 0 before the first mark. */
static _Atomic uint64_t first_ns, last_ns;

void gf_step_mark(uint64_t number)
{
    const uint64_t before = gf_exchange_relaxed(&current, number);
    uint64_t none = 0;

    if (number == before)
        return;
    const uint64_t now = gf_now_ns();
    if (before)
        gf_add_relaxed(&ended, 1);
    gf_cas_relaxed(&first_ns, &none, now);
    gf_store_relaxed(&last_ns, now);
    gf_step_times_mark(now, before != 0, number != 0);
    gf_step_log_add(number, now);
}

uint64_t gf_step_current(void)
{
    return gf_load_relaxed(&current);
}

void gf_step_count(struct gf_step_count *ret)
{
    const uint64_t first = gf_load_relaxed(&first_ns), last = gf_load_relaxed(&last_ns);

    *ret = (struct gf_step_count){
        .ended = gf_load_relaxed(&ended),
        .us = last > first ? (last - first) / 1000 : 0,
        .current = gf_load_relaxed(&current),
    };
}
