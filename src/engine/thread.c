/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's one thread: guard, late threads, pages to move, samples, the report. It looks once
 * a second in the first minute after a decision, when programs make their threads, and then every
 * five; everything it does in between is sleep.
 */
#include "engine/state.h"

#include "base/clock.h"
#include "base/log.h"
#include "place/guard.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)
#define PATIENCE (10 * SECOND)
#define SAMPLED_CALLS 256 /* of malloc, at each look: 25 us of the program's time */

static struct {
    uint64_t next_sample_ns;
    uint64_t sample_gap_ns;
    struct gf_guard guard;
    struct gf_guard_past past;
    unsigned guard_epoch;                    /* the guard starts anew with each placement */
    uint64_t run_ns, delay_ns, throttled_ns; /* of its first reading */
} watch;

/* Sleeps until the time has come or somebody posts: true then. */
static bool sleep_until(uint64_t ns)
{
    const struct timespec at = {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
    int woken;

    while ((woken = sem_clockwait(&gf_process.wake, CLOCK_MONOTONIC, &at)) != 0 && errno == EINTR)
        ;
    while (sem_trywait(&gf_process.wake) == 0)
        ;
    gf_transfers_prepare();
    return woken == 0;
}

/* The same, with an eye on memory, which can go short between two looks at everything else. */
static void watch_until(uint64_t ns)
{
    uint64_t now;

    while ((now = gf_now_ns()) < ns && !gf_dead())
        if (sleep_until(gf_min(gf_keep_watch(now), ns)))
            return;
}

static void start_guard(const struct gf_placement *placement, const struct gf_guard_reading *now)
{
    const bool widened = watch.guard.done == gf_guard_to_socket;
    watch.guard_epoch = placement->epoch;
    if (widened)
        return; /* the step was its own: it goes on with what it knows */
    memset(&watch.guard, 0, sizeof(watch.guard));
    watch.run_ns = now->run_ns;
    watch.delay_ns = now->delay_ns;
    watch.throttled_ns = now->throttled_ns;
}

static void watch_starvation(void)
{
    const struct gf_placement *placement = gf_placement();
    struct gf_guard_reading now = {0};

    if (!placement || !placement->bound)
        return;
    gf_guard_read(&watch.past, &placement->cpus, &placement->socket, &placement->start, &now);
    if (placement->epoch != watch.guard_epoch)
        start_guard(placement, &now);
    const enum gf_guard_step step = gf_guard_feed(&watch.guard, &now);
    if (gf_pen_take(0)) {
        gf_process.report.guard_run_ns = now.run_ns - watch.run_ns;
        gf_process.report.guard_delay_ns = now.delay_ns - watch.delay_ns;
        /* Less than at first: the process was moved to another control group. */
        gf_process.report.guard_throttled_ns =
            now.throttled_ns - gf_min(watch.throttled_ns, now.throttled_ns);
        gf_pen_give();
    }
    if (step != gf_guard_stay)
        gf_serve(step == gf_guard_to_socket ? gf_want_socket : gf_want_start);
}

static uint64_t own_cpu_us(void)
{
    struct timespec used;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

static void sample(void)
{
    if (!gf_pen_take(0))
        return;
    gf_process.report.costs.thread_us = own_cpu_us();
    if (!gf_dead()) {
        gf_output_sample(false);
        gf_output_report(false);
    }
    gf_pen_give();
}

/* A decision was made since the last look: what is known is written down at once. */
static bool is_news(void)
{
    static const struct gf_decision *seen;
    static bool in_use;
    const struct gf_decision *now = gf_decision();
    const bool used = __atomic_load_n(&gf_process.choice.contexts, __ATOMIC_RELAXED) != 0;
    const bool news = now && (now != seen || used != in_use);
    seen = now;
    in_use = used;
    return news;
}

static void sample_when_due(uint64_t now)
{
    const bool news = is_news();
    if (news)
        watch.sample_gap_ns = SECOND;
    else if (now < watch.next_sample_ns)
        return;
    sample();
    watch.next_sample_ns = now + watch.sample_gap_ns;
    watch.sample_gap_ns = gf_min(watch.sample_gap_ns * 2, 60 * SECOND);
}

static void settle_in_time(uint64_t now)
{
    struct gf_process *p = &gf_process;
    if (!p->choice.settled && gf_decision() && now - p->decided_ns > PATIENCE)
        gf_serve(gf_want_patience);
}

void gf_thread_watch(void)
{
    struct gf_process *p = &gf_process;

    while (!gf_decision()) {
        sem_wait(&p->wake);
        gf_transfers_prepare();
    }
    gf_keep_start();
    if (p->door->heap->ease_forks)
        p->door->heap->ease_forks();
    while (!gf_dead()) {
        const uint64_t now = gf_now_ns();
        sample_when_due(now);
        if (p->door->heap->sample)
            p->door->heap->sample(SAMPLED_CALLS);
        gf_intervals_look();
        if (p->door->options->mode != gf_mode_observe) {
            gf_serve(gf_want_rescan);
            watch_starvation();
        }
        settle_in_time(now);
        const bool early = now - p->decided_ns < 60 * SECOND;
        const uint64_t next = now + (early ? 1 : 5) * SECOND;
        gf_migrate_step(next);
        watch_until(next);
    }
}
