/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the memory of the cgroup and the host. If it may run short, the heap returns the freed
 * memory that it keeps. Also returns what the heap may keep no longer. Runs on the library's thread.
 */
#include "engine/process/duties.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/gputime/standstill.h"
#include "engine/process/process_state.h"
#include "engine/transfer/copy/transfer_ops.h"
#include "host/guard.h"
#include "host/mempolicy.h"
#include "host/reclaim_policy.h"
#include "os/cpu_claim.h"
#include "os/own_table.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

/*
 * The time between two checks while the heap keeps more than the start budget. In this time, another
 * process can allocate about 200 MiB.
 */
#define BUSY_NS UINT64_C(100000000)
/* The same while it keeps less, but not little. */
#define IDLE_NS UINT64_C(500000000)
/*
 * The time between two checks while the heap keeps little. Usually the heap wakes the thread before
 * this time has passed, when it keeps more. The time limit is for a wake-up that is lost because it
 * arrives during a check.
 */
#define REST_NS UINT64_C(5000000000)

static struct {
    struct gf_reclaim reclaim;
    uint64_t next_ns;
    _Atomic bool woken; /* the heap sets it: the next call must check */
    /*
     * True if the heap keeps little. The library's thread then does not wake up for checks alone.
     */
    bool resting;
    struct gf_report_memory report; /* copied into the report, which may be locked at a reading */
} memory_watch = {.report.min_headroom = UINT64_MAX};

static void read_memory_files(struct gf_reclaim_reading *ret)
{
    const struct gf_placement *placement = gf_process_placement();
    const bool on_node = placement && placement->policy && placement->node >= 0;

    gf_headroom_read("", on_node ? placement->node : -1, &ret->headroom);
    gf_pressure_read("", &ret->pressure);
}

static void report_reading(const struct gf_reclaim_reading *now, bool purged)
{
    struct gf_report_memory *memory = &memory_watch.report;

    memory->readings++;
    memory->purges += purged;
    memory->min_headroom = gf_min(memory->min_headroom, now->headroom.bytes);
    memory->headroom = now->headroom;
    memory->pressure = now->pressure;
    if (!gf_report_lock(0))
        return;
    gf_process.report.memory = *memory;
    gf_report_unlock();
}

/* Wakes the library's thread. The heap calls it within a call of free. */
static void wake_up(void)
{
    gf_store_release(&memory_watch.woken, true);
    sem_post(&gf_process.wake);
}

/*
 * Checks the memory that the heap keeps. Returns when the next check is due. The heap may wake the
 * thread earlier.
 */
static uint64_t check_kept(uint64_t now_ns)
{
    const struct gf_heap_ops *heap = gf_process.preload->heap;
    struct gf_reclaim_reading now = {.now_ns = now_ns};
    struct gf_heap_retained retained;

    heap->purge_unused();
    heap->retained(&retained);
    if (retained.max_bytes < GF_RECLAIM_LITTLE) {
        heap->watch_retained(wake_up, GF_HEADROOM_UNKNOWN);
        heap->retained(&retained); /* the heap may have kept more before this request */
    }
    memory_watch.resting = retained.max_bytes < GF_RECLAIM_LITTLE;
    if (memory_watch.resting) {
        gf_reclaim_rest(&memory_watch.reclaim);
        return now_ns + REST_NS;
    }
    now.kept = retained.max_bytes;
    read_memory_files(&now);
    const bool purge = gf_reclaim_feed(&memory_watch.reclaim, &now);
    if (purge) {
        heap->purge();
        gf_transfer_memory_is_short();
    }
    report_reading(&now, purge);
    return now_ns + (retained.max_bytes > retained.start ? BUSY_NS : IDLE_NS);
}

/* Starts the watch. Called once, before the first check. */
static void gf_memory_watch_start(void)
{
    const struct gf_heap_ops *heap = gf_process.preload->heap;

    if (heap->watch_retained && gf_process.preload->options->mode == gf_mode_on) {
        struct gf_reclaim_reading now;
        read_memory_files(&now);
        heap->watch_retained(wake_up, now.headroom.bytes);
    } else {
        memory_watch.next_ns = UINT64_MAX;
    }
}

/*
 * If a check is due, reads the counters, and purges if necessary. Returns the time
 * at which the next check is due.
 */
static uint64_t gf_memory_watch_check(uint64_t now_ns)
{
    const uint64_t due_ns = memory_watch.next_ns - (memory_watch.resting ? BUSY_NS : 0);

    if ((gf_exchange_acquire(&memory_watch.woken, false) || now_ns >= due_ns) && !gf_process_dead())
        memory_watch.next_ns = check_kept(now_ns);
    return memory_watch.resting ? memory_watch.next_ns + BUSY_NS : memory_watch.next_ns;
}

/* Moves the pages that the heap had before the binding to the GPU's node. */

/*
 * Pages are moved in pieces of this size. One mbind of 128 MiB made page faults of another thread
 * wait for more than a second (bench/NOTES.md).
 */
#define PIECE ((size_t)2 << 20)
#define BUDGET_NS UINT64_C(3000000000) /* largest total time in mbind */
/*
 * The pause after a piece is this many times as long as moving the piece, so pages are moved for a
 * tenth of the time.
 */
#define REST 9

static struct {
    unsigned epoch; /* sequence number of the placement for which pages are moved */
    struct gf_range *ranges;
    size_t count, at;
    size_t offset;
    uint64_t spent_ns;
} job;

static uint64_t count_left(void)
{
    uint64_t bytes = 0;

    for (size_t i = job.at; i < job.count; i++)
        bytes += job.ranges[i].size;
    return bytes - job.offset;
}

/* The filters of Docker and Podman refuse move_pages also where they permit mbind. */
static struct gf_pages read_job_pages(void)
{
    struct gf_locality now;

    gf_locality_sample(job.ranges, job.count, &now);
    if (!now.known)
        gf_locality_pages("/proc/self/numa_maps", job.ranges, job.count, &now);
    return now.heap;
}

static void finish_job(struct gf_report_migration *report)
{
    report->left_bytes = count_left();
    report->stopped = report->left_bytes > 0;
    report->done = !report->stopped;
    report->after = read_job_pages();
    free(job.ranges);
    job.ranges = NULL;
}

static bool begin_job(const struct gf_placement *placement, struct gf_report_migration *report)
{
    job.epoch = placement->epoch;
    free(job.ranges);
    job.ranges = NULL;
    job.at = job.offset = job.spent_ns = 0;
    if (!placement->bound || placement->policy == GF_MPOL_DEFAULT ||
        !gf_process.preload->heap->ranges)
        return false;
    job.count = gf_process_heap_ranges(&job.ranges);
    if (!job.ranges)
        return false;
    *report = (struct gf_report_migration){.wanted = true, .before = read_job_pages()};
    return true;
}

/*
 * Moves the pages of a range to the GPU's node. On a machine with device memory, the placement's
 * policy allows all nodes with CPUs, so an mbind with this policy would move no page. There, the
 * range gets a policy that prefers the GPU's node, and after the move the placement's policy.
 */
static int move_range(const struct gf_placement *placement, void *start, size_t size)
{
    struct gf_nodes own = {0};

    if (placement->node < 0 || gf_set_count(&placement->policy_nodes) <= 1)
        return gf_mempolicy_move_range(start, size, placement->policy, &placement->policy_nodes);
    gf_set_add(&own, (unsigned)placement->node);
    const int moved = gf_mempolicy_move_range(start, size, GF_MPOL_PREFERRED, &own);
    const int set =
        gf_mempolicy_set_range(start, size, placement->policy, &placement->policy_nodes);
    return moved ? moved : set;
}

static uint64_t move_piece(const struct gf_placement *placement, struct gf_report_migration *report)
{
    const struct gf_range *range = &job.ranges[job.at];
    const size_t length = gf_min(PIECE, range->size - job.offset);
    const uint64_t start_ns = gf_now_ns();
    const int error = move_range(placement, (void *)(range->start + job.offset), length);

    if (error) {
        report->refused++;
        report->error = -error;
    }
    report->calls++;
    report->bytes += length;
    job.offset += length;
    if (job.offset >= range->size) {
        job.offset = 0;
        job.at++;
    }
    return gf_now_ns() - start_ns;
}

/*
 * Moves pages until all are moved, or until the deadline (a time of gf_now_ns). Called on the
 * library's thread.
 */
static void gf_migrate_step(uint64_t deadline_ns)
{
    const struct gf_placement *placement = gf_process_placement();
    struct gf_report_migration *report = &gf_process.report.migration;

    if (!placement || (placement->epoch != job.epoch && !begin_job(placement, report)) ||
        !job.ranges)
        return;
    while (job.at < job.count && job.spent_ns < BUDGET_NS) {
        const uint64_t spent = move_piece(placement, report);
        job.spent_ns += spent;
        gf_process.report.costs.migrate_us += spent / 1000;
        if (gf_now_ns() + spent * REST >= deadline_ns || gf_process_dead())
            return;
        gf_sleep_ns(spent * REST);
        gf_transfers_prepare();
    }
    finish_job(report);
}

#define SECOND UINT64_C(1000000000)
#define SETTLE_NS (10 * SECOND) /* time after which a provisional choice of devices is settled */
/* In this time after a decision, programs start most of their threads. */
#define EARLY_NS (60 * SECOND)
#define SAMPLE_GAP_NS (60 * SECOND) /* longest time between two samples */
/* number of calls of malloc that are timed in each round, which costs the program 25 us */
#define SAMPLED_CALLS 256
#define METRICS_NS (10 * SECOND) /* shortest time between two writes of the metrics */
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
    struct gf_guard_reading first; /* for this placement; its times are subtracted in the report */
} watch;

/*
 * Sleeps until the given time, or until another thread posts gf_process.wake. Returns true if
 * another thread posted.
 */
static bool sleep_until(uint64_t ns)
{
    const struct timespec at = gf_timespec(ns);
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

    while ((now = gf_now_ns()) < ns && !gf_process_dead()) {
        const uint64_t next = gf_min(gf_memory_watch_check(now), gf_output_growth());
        if (sleep_until(gf_min(next, ns)))
            return;
    }
}

static void check_starvation(void)
{
    const struct gf_placement *placement = gf_process_placement();
    struct gf_report *report = &gf_process.report;
    struct gf_guard_reading now = {0};

    if (!placement || !placement->bound)
        return;
    gf_guard_read(&watch.past, &placement->cpus, &placement->socket, &placement->start, &now);
    /* The guard made the placement after its first step, so its readings continue. */
    if (placement->epoch != watch.guard_epoch && watch.guard.done != gf_guard_to_socket) {
        memset(&watch.guard, 0, sizeof(watch.guard));
        watch.first = now;
    }
    watch.guard_epoch = placement->epoch;
    const enum gf_guard_step step = gf_guard_feed(&watch.guard, &now);
    if (gf_report_lock(0)) {
        report->guard_run_ns = now.run_ns - watch.first.run_ns;
        report->guard_delay_ns = now.delay_ns - watch.first.delay_ns;
        /*
         * If the process moved to another cgroup, the value may be smaller than in the first
         * reading.
         */
        report->guard_throttled_ns =
            now.throttled_ns - gf_min(watch.first.throttled_ns, now.throttled_ns);
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
    gf_output_sample(false);
    gf_output_report(false);
    gf_report_unlock();
}

/*
 * Whether there is a new decision, a new placement, the first context, or the start or the end of a
 * standstill since the last call. Each of them is reported at once.
 */
static bool is_news(void)
{
    static uint64_t seen[4];
    struct gf_standstill standstill;

    gf_standstill_read(&standstill);
    const uint64_t now[4] = {(uintptr_t)gf_process_decision(), (uintptr_t)gf_process_placement(),
                             gf_load_relaxed(&gf_process.choice.contexts) != 0,
                             2 * standstill.count - standstill.ongoing};
    const bool news = memcmp(now, seen, sizeof(now)) != 0;
    memcpy(seen, now, sizeof(now));
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
    gf_output_metrics();
    gf_report_unlock();
    /* The first file contains few numbers, so the next files follow soon. */
    watch.next_metrics_ns = now + (now - gf_process.started_ns < METRICS_NS ? SECOND : METRICS_NS);
}

static void settle_in_time(uint64_t now)
{
    if (!gf_process.choice.settled && now - gf_process.decided_ns > SETTLE_NS)
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

/* The main function of the thread that opens the report and the metrics. */
static void *write_files(void *unused)
{
    prctl(PR_SET_NAME, "gpufeed-output");
    gf_own_table_serve(gf_server_writes, NULL);
    return unused;
}

void gf_watch_servers_start(void)
{
    const struct gf_options *options = gf_process.preload->options;

    gf_detached_start(read_files, NULL);
    if (*options->report || *options->metrics)
        gf_detached_start(write_files, NULL);
}

void gf_contexts_find(void)
{
    struct gf_choice *choice = &gf_process.choice;
    struct gf_submit_context *listed = gf_process.preload->submissions->contexts;

    for (unsigned i = 0; i < GF_SUBMIT_CONTEXTS && !gf_load_relaxed(&choice->contexts); i++)
        if (gf_load_acquire(&listed[i].context) > GF_SUBMIT_FILLING &&
            gf_choice_context(choice, gf_load_relaxed(&listed[i].device)))
            gf_requests_serve(gf_request_decide);
}

void gf_watch_thread_run(void)
{
    const struct gf_process *p = &gf_process;

    for (gf_contexts_find(); !gf_process_decision(); gf_contexts_find()) {
        sem_wait(&gf_process.wake);
        gf_transfers_prepare();
    }
    gf_live_start();
    gf_memory_watch_start();
    while (!gf_process_dead()) {
        const uint64_t now = gf_now_ns();
        gf_contexts_find();
        gf_gpu_time_start();
        sample_when_due(now);
        write_metrics_when_due(now);
        gf_output_renew(now);
        if (p->preload->heap->sample)
            p->preload->heap->sample(SAMPLED_CALLS);
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
