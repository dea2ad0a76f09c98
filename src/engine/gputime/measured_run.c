/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/measured_run.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "engine/gputime/run_delay.h"
#include "os/own_table.h"

#include <sys/syscall.h>
#include <unistd.h>

/*
 * The delay is read only if the thread was off the CPU for this time, because reading it would take
 * a third of the time of most work.
 */
#define LONG_NS UINT64_C(1000000)

struct measured {
    void (*work)(void *closure);
    void *closure;
    uint64_t called_ns;
    uint64_t ns, delay_ns;
};

static _Atomic uint64_t total, total_delay;

/*
 * Returns the delay of the calling thread, which may have been off the CPU for off_ns during this
 * work. The thread that reads files does other work, too.
 */
static uint64_t delay_within(uint64_t off_ns)
{
    static uint64_t seen; /* delay of the thread that reads files, at the last reading */
    const uint64_t delay = gf_run_delay_read((pid_t)syscall(SYS_gettid));

    if (gf_own_table_on_short_thread())
        return delay;
    const uint64_t since = delay - gf_min(seen, delay);
    seen = delay;
    return gf_min(since, off_ns);
}

static void run_measured(void *closure)
{
    struct measured *const measured = closure;
    const uint64_t start = gf_thread_cpu_ns();

    measured->work(measured->closure);
    measured->ns = gf_thread_cpu_ns() - start;
    const uint64_t passed = gf_now_ns() - measured->called_ns;
    if (passed >= measured->ns + LONG_NS)
        measured->delay_ns = delay_within(passed - measured->ns);
}

bool gf_measured_run(void (*work)(void *closure), void *closure, uint64_t *ret_ns)
{
    struct measured measured = {.work = work, .closure = closure, .called_ns = gf_now_ns()};
    const bool done = gf_own_table_run(run_measured, &measured);

    gf_add_relaxed(&total, measured.ns);
    gf_add_relaxed(&total_delay, measured.delay_ns);
    *ret_ns = measured.ns;
    return done;
}

uint64_t gf_measured_run_total(void)
{
    return gf_load_relaxed(&total);
}

uint64_t gf_measured_run_delay(void)
{
    return gf_load_relaxed(&total_delay);
}
