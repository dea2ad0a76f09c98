/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/measured_run.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "os/own_table.h"

struct measured {
    void (*work)(void *closure);
    void *closure;
    uint64_t ns;
};

static _Atomic uint64_t total;

static void run_measured(void *closure)
{
    struct measured *const measured = closure;
    const uint64_t start = gf_thread_cpu_ns();

    measured->work(measured->closure);
    measured->ns = gf_thread_cpu_ns() - start;
}

bool gf_measured_run(void (*work)(void *closure), void *closure, uint64_t *ret_ns)
{
    struct measured measured = {.work = work, .closure = closure};
    const bool done = gf_own_table_run(run_measured, &measured);

    gf_add_relaxed(&total, measured.ns);
    *ret_ns = measured.ns;
    return done;
}

uint64_t gf_measured_run_total(void)
{
    return gf_load_relaxed(&total);
}
