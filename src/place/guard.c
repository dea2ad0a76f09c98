/* SPDX-License-Identifier: Apache-2.0 */
#include "place/guard.h"

#include "base/base.h"

#define SECOND UINT64_C(1000000000)
#define STARVING_NS (5 * SECOND)
#define GAP_NS (10 * SECOND) /* readings further apart than this say nothing about what was between */

static uint64_t grown(uint64_t now, uint64_t before)
{
    /* A CPU that went offline took its idle time along. */
    return now > before ? now - before : 0;
}

/*
 * More than 10 % of the time in which threads wanted a CPU, they had none, quota aside. Wishes for
 * less than a tenth of one CPU are not worth widening.
 */
static bool starves(const struct gf_guard_reading *now, const struct gf_guard_reading *last,
                    uint64_t interval)
{
    const uint64_t run = grown(now->run_ns, last->run_ns);
    const uint64_t delay = grown(now->delay_ns, last->delay_ns);
    const uint64_t throttled = grown(now->throttled_ns, last->throttled_ns);
    const uint64_t waited = delay > throttled ? delay - throttled : 0;

    return (run + delay) * 10 >= interval && waited * 10 > run + delay;
}

/* At least one CPU's worth and a tenth of the CPUs to be gained lay idle. */
static bool has_idle(uint64_t idle_ns, unsigned cpus, uint64_t interval)
{
    return cpus > 0 && idle_ns >= interval && idle_ns * 10 >= interval * cpus;
}

static enum gf_guard_step useful_step(const struct gf_guard *guard,
                                      const struct gf_guard_reading *now, uint64_t interval)
{
    const struct gf_guard_reading *last = &guard->last;

    if (guard->done == gf_guard_stay &&
        has_idle(grown(now->socket_idle_ns, last->socket_idle_ns), now->socket_cpus, interval))
        return gf_guard_to_socket;
    if (guard->done != gf_guard_to_start &&
        has_idle(grown(now->start_idle_ns, last->start_idle_ns), now->start_cpus, interval))
        return gf_guard_to_start;
    return gf_guard_stay;
}

enum gf_guard_step gf_guard_feed(struct gf_guard *guard, const struct gf_guard_reading *reading)
{
    const uint64_t interval = grown(reading->now_ns, guard->last.now_ns);
    enum gf_guard_step step = gf_guard_stay;

    if (guard->last.now_ns == 0 || interval == 0 || interval > GAP_NS)
        guard->starving_since = 0;
    else if (!starves(reading, &guard->last, interval) ||
             !(step = useful_step(guard, reading, interval)))
        guard->starving_since = 0;
    else if (!guard->starving_since)
        guard->starving_since = guard->last.now_ns;
    guard->last = *reading;
    if (!step || !guard->starving_since || reading->now_ns - guard->starving_since < STARVING_NS)
        return gf_guard_stay;
    guard->starving_since = 0;
    guard->done = step;
    return step;
}
