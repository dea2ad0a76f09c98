/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/watch_thread.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "host/guard.h"
#include "engine/process/gpu_time.h"
#include "engine/process/intervals.h"
#include "engine/process/live.h"
#include "engine/process/memory_watch.h"
#include "engine/process/migrate.h"
#include "engine/process/output.h"
#include "engine/process/process_state.h"
#include "engine/process/report_lock.h"
#include "engine/process/requests.h"
#include "engine/process/transfers.h"
#include "os/cpu_claim.h"
#include "os/own_table.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define SECOND UINT64_C(1000000000)
#define SETTLE_NS (10 * SECOND) /* time after which a provisional choice of devices is settled */
/* In this time after a decision, programs start most of their threads. */
#define EARLY_NS (60 * SECOND)
#define SAMPLE_GAP_NS (60 * SECOND) /* longest time between two samples */
/* number of calls of malloc that are timed in each round, which costs the program 25 us */
#define SAMPLED_CALLS 256
#define READER_STACK ((size_t)1 << 20) /* `ulimit -s` may be smaller */
#define METRICS_NS (10 * SECOND)       /* shortest time between two writes of the metrics */
/* A limit between the exit times of shallow idle states (1 to 2 us) and deep ones (above 50 us). */
#define SHALLOW_US 10
#define SNAPSHOT_MS 20 /* formatting a report takes less time than this */

static struct {
    uint64_t next_sample_ns;
    uint64_t sample_gap_ns;
    uint64_t next_metrics_ns;
    struct gf_guard guard;
    struct gf_guard_deltas past;
    /* Epoch of the placement for which the guard has readings. */
    unsigned guard_epoch;
    uint64_t run_ns, delay_ns, throttled_ns; /* times in the guard's first reading */
} watch;

/*
 * Sleeps until the given time, or until another thread posts gf_process.wake. Returns true if
 * another thread posted.
 */
static bool sleep_until(uint64_t ns)
{
    const struct timespec at = {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
    int failed;

    while ((failed = sem_clockwait(&gf_process.wake, CLOCK_MONOTONIC, &at)) != 0 && errno == EINTR)
        ;
    while (sem_trywait(&gf_process.wake) == 0)
        ;
    gf_transfers_prepare();
    return failed == 0;
}

/* Like sleep_until, but also checks memory, which may run short between two rounds. */
static void sleep_and_watch_memory(uint64_t ns)
{
    uint64_t now;

    while ((now = gf_now_ns()) < ns && !gf_process_dead())
        if (sleep_until(gf_min(gf_memory_watch_check(now), ns)))
            return;
}

static void start_guard(const struct gf_placement *placement, const struct gf_guard_reading *now)
{
    const bool widened = watch.guard.done == gf_guard_to_socket;
    watch.guard_epoch = placement->epoch;
    if (widened)
        return; /* the guard made this placement, so its readings continue */
    memset(&watch.guard, 0, sizeof(watch.guard));
    watch.run_ns = now->run_ns;
    watch.delay_ns = now->delay_ns;
    watch.throttled_ns = now->throttled_ns;
}

static void check_starvation(void)
{
    const struct gf_placement *placement = gf_process_placement();
    struct gf_report *report = &gf_process.report;
    struct gf_guard_reading now = {0};

    if (!placement || !placement->bound)
        return;
    gf_guard_read(&watch.past, &placement->cpus, &placement->socket, &placement->start, &now);
    if (placement->epoch != watch.guard_epoch)
        start_guard(placement, &now);
    const enum gf_guard_step step = gf_guard_feed(&watch.guard, &now);
    if (gf_report_lock(0)) {
        report->guard_run_ns = now.run_ns - watch.run_ns;
        report->guard_delay_ns = now.delay_ns - watch.delay_ns;
        /*
         * If the process moved to another cgroup, the value may be smaller than in the first
         * reading.
         */
        report->guard_throttled_ns =
            now.throttled_ns - gf_min(watch.throttled_ns, now.throttled_ns);
        gf_report_unlock();
    }
    if (step != gf_guard_stay)
        gf_requests_serve(step == gf_guard_to_socket ? gf_request_socket : gf_request_start);
}

static void take_sample(void)
{
    /*
     * If the lock is not free, the sample is skipped. A thread of the program may hold the lock,
     * because it reads the report (gpufeed_report).
     */
    if (!gf_report_lock(SNAPSHOT_MS))
        return;
    gf_process.report.costs.thread_us = gf_thread_cpu_ns() / 1000;
    if (!gf_process_dead()) {
        gf_output_sample(false);
        gf_output_report(false);
    }
    gf_report_unlock();
}

/*
 * Whether there is a new decision, a new placement or the first context since the last call. Each
 * of them is reported at once.
 */
static bool is_news(void)
{
    static const struct gf_decision *seen;
    static const struct gf_placement *placed;
    static bool seen_context;
    const struct gf_placement *placement = gf_process_placement();
    const struct gf_decision *decision = gf_process_decision();
    const bool has_context = gf_load_relaxed(&gf_process.choice.contexts) != 0;
    const bool news =
        decision && (decision != seen || placement != placed || has_context != seen_context);

    seen = decision;
    placed = placement;
    seen_context = has_context;
    return news;
}

static void sample_when_due(uint64_t now)
{
    if (is_news())
        watch.sample_gap_ns = SECOND;
    else if (now < watch.next_sample_ns)
        return;
    take_sample();
    watch.next_sample_ns = now + watch.sample_gap_ns;
    watch.sample_gap_ns = gf_min(watch.sample_gap_ns * 2, SAMPLE_GAP_NS);
}

static void write_metrics_when_due(uint64_t now)
{
    if (now < watch.next_metrics_ns || !gf_load_relaxed(&gf_process.choice.contexts) ||
        !gf_report_lock(SNAPSHOT_MS))
        return;
    if (!gf_process_dead())
        gf_output_metrics();
    gf_report_unlock();
    /* The first file contains few numbers, so the next files follow soon. */
    watch.next_metrics_ns = now + (now - gf_process.started_ns < METRICS_NS ? SECOND : METRICS_NS);
}

static void settle_in_time(uint64_t now)
{
    const struct gf_process *p = &gf_process;
    if (!p->choice.settled && gf_process_decision() && now - p->decided_ns > SETTLE_NS)
        gf_requests_serve(gf_request_settle);
}

static _Atomic int idle_states_error; /* an error that has not been printed yet */

/*
 * Carries out GPUFEED_IDLE_STATES. Called on the thread that reads files, so that the program does
 * not see the descriptor.
 */
static void limit_idle_states(void)
{
    const struct gf_options *options = gf_process.preload->options;

    if (options->idle_states == gf_idle_states_shallow && options->mode == gf_mode_on)
        gf_store_relaxed(&idle_states_error, gf_idle_states_limit(SHALLOW_US));
}

/* The thread that reads files cannot print, because its standard error is /dev/null. */
static void warn_of_idle_states(void)
{
    const int error = gf_load_relaxed(&idle_states_error);

    if (!error)
        return;
    gf_store_relaxed(&idle_states_error, 0);
    gf_warn("GPUFEED_IDLE_STATES=shallow has no effect: %s: %s", GF_IDLE_STATES_DEVICE,
            strerrordesc_np(-error));
}

/*
 * The main function of the thread that reads files for all threads. If this thread cannot be
 * started, each reading starts a thread.
 */
static void *read_files(void *unused)
{
    prctl(PR_SET_NAME, "gpufeed-files");
    gf_own_table_serve(gf_server_reads, limit_idle_states);
    return unused;
}

static void do_nothing(void)
{
}

/* The main function of the thread that opens the report and the metrics. */
static void *write_files(void *unused)
{
    prctl(PR_SET_NAME, "gpufeed-output");
    gf_own_table_serve(gf_server_writes, do_nothing);
    return unused;
}

static void start_servers(void)
{
    const struct gf_options *options = gf_process.preload->options;
    pthread_attr_t attr;
    pthread_t thread;

    if (pthread_attr_init(&attr) != 0)
        return;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, READER_STACK);
    pthread_create(&thread, &attr, read_files, NULL);
    if (*options->report || *options->metrics)
        pthread_create(&thread, &attr, write_files, NULL);
    pthread_attr_destroy(&attr);
}

void gf_watch_thread_run(void)
{
    const struct gf_process *p = &gf_process;
    const struct gf_heap_ops *heap = p->preload->heap;

    start_servers();
    while (!gf_process_decision()) {
        sem_wait(&gf_process.wake);
        gf_transfers_prepare();
    }
    gf_live_start();
    gf_memory_watch_start();
    if (heap->allow_quiesce)
        heap->allow_quiesce();
    while (!gf_process_dead()) {
        const uint64_t now = gf_now_ns();
        gf_gpu_time_start();
        sample_when_due(now);
        write_metrics_when_due(now);
        gf_output_renew(now);
        if (heap->sample)
            heap->sample(SAMPLED_CALLS);
        gf_intervals_log();
        if (p->preload->options->mode != gf_mode_observe) {
            gf_requests_serve(gf_request_rescan);
            check_starvation();
            gf_transfers_follow();
        }
        warn_of_idle_states();
        settle_in_time(now);
        const uint64_t next = now + (now - p->decided_ns < EARLY_NS ? 1 : 5) * SECOND;
        gf_migrate_step(next);
        sleep_and_watch_memory(next);
    }
}
