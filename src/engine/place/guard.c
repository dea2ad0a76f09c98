/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/guard.h"

#include "base/base.h"

#define SECOND UINT64_C(1000000000)
#define STARVING_NS (5 * SECOND)
/* If two readings are further apart, the starvation time begins anew. */
#define GAP_NS (10 * SECOND)

static uint64_t increase_of(uint64_t now, uint64_t before)
{
    /*
     * The sum of idle times falls when a CPU goes offline, because /proc/stat no longer contains
     * it.
     */
    return now > before ? now - before : 0;
}

/*
 * Whether threads starved: in the interval they waited for a CPU for more than a tenth of the time
 * in which they ran or were runnable. Time in which the cgroup was throttled does not count as
 * waiting. If the threads needed less than a tenth of one CPU, they do not count as starved.
 */
static bool is_starving(const struct gf_guard_reading *now, const struct gf_guard_reading *last,
                        uint64_t interval)
{
    const uint64_t run = increase_of(now->run_ns, last->run_ns);
    const uint64_t delay = increase_of(now->delay_ns, last->delay_ns);
    const uint64_t throttled = increase_of(now->throttled_ns, last->throttled_ns);
    const uint64_t waited = delay > throttled ? delay - throttled : 0;

    return (run + delay) * 10 >= interval && waited * 10 > run + delay;
}

/*
 * Whether the CPUs that the step would add were idle enough: by their total idle time, at least one
 * CPU and at least a tenth of these CPUs.
 */
static bool has_idle(uint64_t idle_ns, unsigned cpus, uint64_t interval)
{
    return cpus > 0 && idle_ns >= interval && idle_ns * 10 >= interval * cpus;
}

static enum gf_guard_step useful_step(const struct gf_guard *guard,
                                      const struct gf_guard_reading *now, uint64_t interval)
{
    const struct gf_guard_reading *last = &guard->last;

    if (guard->done == gf_guard_stay &&
        has_idle(increase_of(now->socket_idle_ns, last->socket_idle_ns), now->socket_cpus,
                 interval))
        return gf_guard_to_socket;
    if (guard->done != gf_guard_to_start &&
        has_idle(increase_of(now->start_idle_ns, last->start_idle_ns), now->start_cpus, interval))
        return gf_guard_to_start;
    return gf_guard_stay;
}

enum gf_guard_step gf_guard_feed(struct gf_guard *guard, const struct gf_guard_reading *reading)
{
    const uint64_t interval = increase_of(reading->now_ns, guard->last.now_ns);
    enum gf_guard_step step = gf_guard_stay;

    if (guard->last.now_ns == 0 || interval == 0 || interval > GAP_NS)
        guard->starving_since = 0;
    else if (!is_starving(reading, &guard->last, interval) ||
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
