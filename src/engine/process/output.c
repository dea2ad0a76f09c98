/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/duties.h"

#include "abi/formats.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/process/process_state.h"
#include "engine/process/thread_binding.h"
#include "engine/report/sections.h"
#include "os/own_table.h"
#include "os/permit.h"
#include "os/procfs.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

/*
 * At exit, numa_maps is read if that takes less than this time or a thousandth of the run, because the
 * kernel then holds a lock that page faults take.
 */
#define NUMA_MAPS_US 250000
#define NUMA_MAPS_US_PER_GIB 9000

static bool may_read_all(void)
{
    char text[128];
    const char *resident =
        gf_procfs_read(text, sizeof(text), "", "proc/self/statm") > 0 ? strchr(text, ' ') : NULL;
    const uint64_t pages = resident ? gf_procfs_number(resident + 1) : 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE) / (UINT64_C(1) << 20) * NUMA_MAPS_US_PER_GIB /
               1024 <
           gf_max(gf_process_elapsed_ms(), (uint64_t)NUMA_MAPS_US);
}

/*
 * While the program runs, no page fault waits for more than the query of 64 pages. On a machine with
 * one node, the node of a page is known, and only the exit summary shows sizes.
 */
static void read_pages(bool final, struct gf_locality *ret)
{
    struct gf_range *ranges;

    if (!final && gf_process.machine && gf_process.machine->node_count == 1)
        return;
    const size_t count = gf_process_heap_ranges(&ranges);
    if (!ranges)
        return;
    if (final && may_read_all())
        gf_locality_pages("/proc/self/numa_maps", ranges, count, ret);
    else
        gf_locality_sample(ranges, count, ret);
    free(ranges);
}

/*
 * Counts the threads twice, 2 ms apart, because a new thread sets its class, and perhaps the start
 * mask, only in its first instructions. Before that, a thread of the driver or the library counts
 * as a thread of the program. If only submitting threads are bound, a thread that one of them
 * creates counts as bound until it has set the start mask. The second result is used if it
 * counts fewer threads of the program or, if only submitting threads are bound, as many threads of
 * the program but fewer bound ones.
 */
static void read_threads(const struct gf_cpus *target, bool submitters, struct gf_threads *ret)
{
    struct gf_threads again;

    gf_locality_threads(target, gf_process.preload->thread_class, ret);
    gf_sleep_ns(2000000);
    gf_locality_threads(target, gf_process.preload->thread_class, &again);
    if (again.program < ret->program ||
        (submitters && again.program == ret->program && again.on_target < ret->on_target))
        *ret = again;
}

void gf_output_sample(bool final)
{
    const struct gf_decision *decision = gf_process_decision();
    const struct gf_placement *placement = gf_process_placement();
    struct gf_report *report = &gf_process.report;
    struct gf_report_sample sample = {.at_ms = gf_process_elapsed_ms()};

    read_threads(placement ? &placement->cpus : &decision->cpus, placement && placement->submitters,
                 &sample.threads);
    read_pages(final, &sample.locality);
    report->policy_kept = gf_thread_binding_count_kept();
    report->costs.sample_us += sample.locality.usec;
    gf_report_add_sample(report, &sample);
}

static void read_resident(void *closure)
{
    struct gf_growth_point *point = closure;
    char text[4096];
    const char *anonymous, *shared;

    if (gf_procfs_read(text, sizeof(text), "", "proc/self/status") <= 0 ||
        !(anonymous = gf_procfs_field(text, "RssAnon")) ||
        !(shared = gf_procfs_field(text, "RssShmem")))
        return;
    point->anonymous = gf_procfs_number(anonymous) << 10;
    point->shared = gf_procfs_number(shared) << 10;
}

/* The caller holds the report lock. */
static uint64_t read_pinned(void)
{
    const struct gf_transfer_state *state = &gf_process.report.transfers.state;
    uint64_t bytes;

    gf_transfers_read(&gf_process.report.transfers);
    bytes = state->ring_bytes + state->pinned_kept;
    for (unsigned i = 0; i < GF_NODE_BYTES_COUNT; i++)
        bytes += state->pinned_held[i];
    return bytes;
}

/* The program's exit waits for the report lock, so it is not held while files are read. */
static void add_growth_point(struct gf_growth_point *point)
{
    struct gf_report *report = &gf_process.report;
    struct gf_heap_stats stats = {.allocated = UINT64_MAX};
    struct gf_step_times times;

    gf_process.preload->step_times(&times);
    if (times.source == gf_step_none)
        return;
    gf_own_table_run(read_resident, point);
    if (gf_process.preload->heap->stats)
        gf_process.preload->heap->stats(&stats);
    point->steps = times.steps;
    point->heap = stats.allocated;
    if (!point->anonymous || !gf_report_lock(0))
        return;
    point->anonymous -= gf_min(point->anonymous, stats.dirty + stats.lazily_freed);
    point->pinned = read_pinned();
    gf_growth_add(&report->growth, times.source, point);
    gf_report_unlock();
}

uint64_t gf_output_growth(void)
{
    const struct gf_growth *growth = &gf_process.report.growth; /* only this thread changes it */
    struct gf_growth_point point = {.at_ms = gf_process_elapsed_ms()};

    if (!gf_log_wants(GF_LOG_INFO))
        return UINT64_MAX;
    if (point.at_ms >= growth->next_ms && !gf_process_dead())
        add_growth_point(&point);
    return growth->next_ms > point.at_ms ? gf_process.started_ns + growth->next_ms * 1000000
                                         : UINT64_MAX;
}

/*
 * Copies the decision, with the CPUs and the policy that are in force now, because the guard may
 * have changed them.
 */
static void refresh_decision(struct gf_report *report, const struct gf_decision *decision)
{
    const struct gf_placement *placement = gf_process_placement();

    report->decision = *decision;
    report->decision.settled = gf_process.choice.settled;
    if (!placement)
        return;
    report->decision.cpus = placement->cpus;
    report->decision.policy = placement->policy;
    /*
     * Threads that submit work are bound at their next call. So whether a thread is bound is known
     * only from samples.
     */
    report->decision.bound =
        placement->bound && (placement->submitters ? report->peak.on_target > 0 : decision->bound);
}

static void refresh_report(struct gf_report *report, bool ended)
{
    const struct gf_decision *decision = gf_process_decision();

    report->ended = ended;
    report->written_ms = gf_clock_ns(CLOCK_REALTIME) / 1000000;
    report->ran_ms = gf_process_elapsed_ms();
    report->decided = decision != NULL;
    if (decision)
        refresh_decision(report, decision);
    gf_events_collect(report);
    gf_embedded_read(&report->embedded);
    report->driver_bytes = gf_load_relaxed(&gf_process.choice.total);
    gf_transfers_read(&report->transfers);
    gf_sampler_read(&report->gpu_time);
}

void gf_output_report(bool ended)
{
    struct gf_report *report = &gf_process.report;
    const uint64_t start_ns = gf_now_ns();

    refresh_report(report, ended);
    /*
     * A process without a CUDA context writes no report. For example, a launcher that only counts
     * devices would overwrite the report of its worker.
     */
    if (*gf_process.preload->options->report && gf_load_relaxed(&gf_process.choice.contexts))
        (ended ? gf_report_file_write_last : gf_report_file_write)(report);
    report->costs.report_us += (gf_now_ns() - start_ns) / 1000;
    if (ended)
        gf_metrics_file_remove(report);
}

void gf_output_metrics(void)
{
    struct gf_report *report = &gf_process.report;
    const uint64_t start_ns = gf_now_ns();

    /*
     * A process without a CUDA context would replace the file of another process, as with reports.
     */
    if (!*gf_process.preload->options->metrics || !gf_load_relaxed(&gf_process.choice.contexts) ||
        gf_permit_sealed())
        return;
    refresh_report(report, false);
    gf_metrics_file_write(report);
    report->costs.report_us += (gf_now_ns() - start_ns) / 1000;
}

void gf_output_renew(uint64_t now)
{
    struct gf_report *report = &gf_process.report;

    /*
     * A seccomp filter may kill a process that writes a file. So a sealed process (os/permit.h)
     * writes the report only at its samples and at exit.
     */
    if (!*gf_process.preload->options->report || !gf_report_file_is_due(now) ||
        gf_permit_sealed() || !gf_report_lock(0))
        return;
    refresh_report(report, false);
    if (gf_report_file_is_news(report))
        gf_output_report(false);
    gf_report_unlock();
}

size_t gf_output_snapshot(char *buf, size_t size, unsigned wait_ms)
{
    if (!gf_report_lock(wait_ms))
        return 0;
    refresh_report(&gf_process.report, false);
    const size_t length = gf_report_json(&gf_process.report, buf, size);
    gf_report_unlock();
    return length;
}

/* Whether the path contains %p or %r, so that it differs for each process or rank. */
static bool is_path_per_rank(const char *pattern)
{
    for (const char *p = strchr(pattern, '%'); p && p[1]; p = strchr(p + 2, '%'))
        if (p[1] == 'p' || p[1] == 'r')
            return true;
    return false;
}

/* Warns if the path contains a pattern that is not replaced, such as Slurm's %j and %t. */
static void check_pattern(const char *name, const char *pattern)
{
    for (const char *p = strchr(pattern, '%'); p && p[1]; p = strchr(p + 2, '%'))
        if (!strchr("phr%", p[1])) {
            gf_warn("%s: %.2s is not replaced; only %%p (process), %%h (host) and %%r (rank) are",
                    name, p);
            return;
        }
}

static void check_ranks(const char *name, const char *what, const char *pattern)
{
    const struct gf_rank *rank = &gf_process.facts.rank;

    if (*pattern && rank->local_size > 1 && rank->local_rank <= 0 && !is_path_per_rank(pattern))
        gf_warn("%s: %d ranks write %s, so only one %s remains. "
                "Put %%r, the rank, into the path.",
                name, rank->local_size, pattern, what);
}

void gf_output_check(void)
{
    const struct gf_options *options = gf_process.preload->options;
    const char *report = options->report, *metrics = options->metrics;
    const size_t length = strlen(metrics);

    check_pattern("GPUFEED_LOG", options->log);
    check_pattern("GPUFEED_REPORT", report);
    check_pattern("GPUFEED_METRICS", metrics);
    if (length && (length < 5 || strcmp(metrics + length - 5, ".prom") != 0))
        gf_warn("GPUFEED_METRICS: %s does not end in .prom; node_exporter ignores the file",
                metrics);
    check_ranks("GPUFEED_METRICS", "of their files", metrics);
    if (!*report || gf_begins(report, "/dev/"))
        return; /* no report is overwritten, because reports are appended to a device */
    if (strcmp(report, options->log) == 0)
        gf_warn("GPUFEED_REPORT and GPUFEED_LOG are both %s; the report would overwrite the log. "
                "Choose another path.",
                report);
    check_ranks("GPUFEED_REPORT", "report", report);
}

#define FIRST_TEXT ((size_t)4096)
/* Size of each of the two texts; only the pages that are written take memory. */
#define TEXT_BYTES ((size_t)1 << 20)
#define FILE_BYTES (FIRST_TEXT + 2 * TEXT_BYTES)
#define PERIOD_S 1
#define LOCK_WAIT_MS 200

/*
 * Creates and maps the file in memory. This thread first gets its own descriptor table, so that the
 * program's descriptor numbers do not change. Returns NULL if the kernel refuses a call.
 */
static struct gf_live_header *map_file(void)
{
    if (!gf_own_table_leave())
        return NULL;
    const int fd = (int)syscall(SYS_memfd_create, GF_LIVE_NAME, 1u /* MFD_CLOEXEC */);
    if (fd < 0 || ftruncate(fd, (off_t)FILE_BYTES))
        return NULL;
    void *const file = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (file == MAP_FAILED)
        return NULL;
    madvise(file, FILE_BYTES, MADV_DONTFORK); /* a child may run code of others */
    return file;
}

/*
 * Formats the report into the half of the file that does not contain the current text, then makes
 * it the current text. If the report does not fit, or if another thread holds the report lock, the
 * previous text stays current.
 */
static void write_report(struct gf_live_header *file)
{
    const uint64_t at = FIRST_TEXT + file->sequence / 2 % 2 * TEXT_BYTES;
    const size_t length = gf_output_snapshot((char *)file + at, TEXT_BYTES, LOCK_WAIT_MS);

    if (!length || length >= TEXT_BYTES)
        return;
    __atomic_store_n(&file->sequence, file->sequence + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&file->text_at, at, __ATOMIC_RELAXED);
    __atomic_store_n(&file->text_bytes, length, __ATOMIC_RELAXED);
    __atomic_store_n(&file->written_ns, gf_now_ns(), __ATOMIC_RELAXED);
    __atomic_store_n(&file->sequence, file->sequence + 1, __ATOMIC_RELEASE);
}

static void *show_report(void *unused)
{
    const struct timespec period = {.tv_sec = PERIOD_S};

    prctl(PR_SET_NAME, "gpufeed-live");
    struct gf_live_header *file = map_file();
    if (!file)
        return unused;
    memcpy(file->magic, GF_LIVE_MAGIC, sizeof(file->magic));
    file->version = GF_LIVE_VERSION;
    file->pid = gf_process.pid;
    do /* ends if a seccomp filter refuses the sleep */
        write_report(file);
    while (!gf_process_dead() && (nanosleep(&period, NULL) == 0 || errno == EINTR));
    return unused;
}

void gf_live_start(void)
{
    const bool wanted = gf_process.preload->options->live == gf_live_on;
    const int error = wanted ? gf_detached_start(show_report, NULL) : 0;

    if (error)
        gf_warn(
            "GPUFEED_LIVE: cannot start a thread: %s; `gpufeed top` shows only the report's file",
            strerrordesc_np(error));
}
