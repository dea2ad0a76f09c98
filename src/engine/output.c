/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/state.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "base/log.h"
#include "observe/json.h"
#include "observe/path.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SAMPLE_US_PER_MINUTE 50000
#define SAMPLE_US_AT_EXIT 250000
#define NUMA_MAPS_US_PER_GIB 9000

/* Filled in by whoever has an event, without the pen; there are a handful in a process. */
static struct {
    struct gf_report_event event;
    bool ready;
} events[GF_REPORT_EVENTS];
static unsigned event_count;

bool gf_pen_take(unsigned wait_ms)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    while (__atomic_exchange_n(&gf_process.pen, true, __ATOMIC_ACQUIRE)) {
        if (wait_ms-- == 0)
            return false;
        nanosleep(&moment, NULL);
    }
    return true;
}

void gf_pen_give(void)
{
    __atomic_store_n(&gf_process.pen, false, __ATOMIC_RELEASE);
}

uint64_t gf_elapsed_ms(void)
{
    return (gf_now_ns() - gf_process.started_ns) / 1000000;
}

/* What reading numa_maps will take, from the last time or from the resident size. */
static uint64_t sample_cost(void)
{
    const struct gf_report *report = &gf_process.report;
    for (size_t i = report->sample_count; i > 0; i--)
        if (report->samples[i - 1].locality.known)
            return report->samples[i - 1].locality.usec;
    struct gf_heap_stats stats = {0};
    if (gf_process.door->heap->stats)
        gf_process.door->heap->stats(&stats);
    return (stats.active >> 20) * NUMA_MAPS_US_PER_GIB / 1024;
}

static bool may_read_pages(bool final)
{
    const uint64_t budget =
        SAMPLE_US_PER_MINUTE + gf_elapsed_ms() * SAMPLE_US_PER_MINUTE / 60000;
    const uint64_t cost = sample_cost();
    return gf_process.report.costs.sample_us + cost <= budget || (final && cost < SAMPLE_US_AT_EXIT);
}

static void read_pages(struct gf_locality *ret)
{
    struct gf_range *ranges;
    const size_t count = gf_heap_ranges(&ranges);
    if (ranges)
        gf_locality_pages("/proc/self/numa_maps", ranges, count, ret);
    free(ranges);
}

/*
 * A thread that the driver or the library makes is told apart by its own first instructions; one
 * that was counted just before them is the program's for that moment only.
 */
static void read_threads(const struct gf_cpus *target, struct gf_threads *ret)
{
    static const struct timespec moment = {.tv_nsec = 2000000};
    struct gf_threads again;

    gf_locality_threads(target, gf_thread_owner, ret);
    nanosleep(&moment, NULL);
    gf_locality_threads(target, gf_thread_owner, &again);
    if (again.program < ret->program)
        *ret = again;
}

/* The holder of the pen only. */
void gf_output_sample(bool final)
{
    const struct gf_decision *decision = gf_decision();
    const struct gf_placement *placement = gf_placement();
    struct gf_report *report = &gf_process.report;
    struct gf_report_sample sample = {.at_ms = gf_elapsed_ms()};

    if (!decision)
        return;
    read_threads(placement ? &placement->cpus : &decision->cpus, &sample.threads);
    if (may_read_pages(final))
        read_pages(&sample.locality);
    report->costs.sample_us += sample.locality.usec;
    gf_report_add_sample(report, &sample);
}

static void collect_events(struct gf_report *report)
{
    report->event_count = 0;
    for (size_t row = 0; row < GF_REPORT_EVENTS; row++)
        if (__atomic_load_n(&events[row].ready, __ATOMIC_ACQUIRE))
            report->events[report->event_count++] = events[row].event;
}

static void refresh(struct gf_report *report, bool ended)
{
    struct gf_process *p = &gf_process;
    const struct gf_decision *decision = gf_decision();
    const struct gf_placement *placement = gf_placement();

    report->ended = ended;
    report->ran_ms = gf_elapsed_ms();
    report->decided = decision != NULL;
    if (decision) {
        report->decision = *decision;
        report->decision.settled = p->choice.settled;
        if (placement) {
            report->decision.cpus = placement->cpus;
            /* Threads that submit work are bound as they come: what was seen since counts. */
            report->decision.bound =
                placement->bound &&
                (placement->submitters ? report->peak.on_target > 0 : decision->bound);
            report->decision.policy = placement->policy;
        }
    }
    collect_events(report);
    gf_embedded_read(&report->embedded);
    report->late_threads = __atomic_load_n(&p->late_threads, __ATOMIC_RELAXED);
    report->policy_threads = __atomic_load_n(&p->policy_threads, __ATOMIC_RELAXED);
    report->policy_refused = __atomic_load_n(&p->policy_refused, __ATOMIC_RELAXED);
    report->peak_descendants = p->peak_descendants;
    report->driver_bytes = __atomic_load_n(&p->choice.total, __ATOMIC_RELAXED);
    gf_transfers_read(&report->transfers);
    report->costs.decide_us = __atomic_load_n(&p->decide_us, __ATOMIC_RELAXED);
}

static void write_report(struct gf_report *report)
{
    static bool refused;
    char path[PATH_MAX];
    const char *pattern = report->options->report;
    const size_t length = gf_report_json(report, NULL, 0);
    /* Counters go on between the two passes: room for more digits. */
    const size_t size = length + 4096;
    char *text = malloc(size);

    if (!text)
        return;
    const size_t written = gf_report_json(report, text, size);
    int error = gf_path_expand(pattern, report->pid, report->facts->rank.rank, path, sizeof(path));
    if (!error && written < size - 1) {
        text[written] = '\n';
        error = gf_path_replace(path, text, written + 1);
    }
    free(text);
    if (error && !refused)
        gf_warn("GPUFEED_REPORT: cannot write %s: %s", pattern, strerrordesc_np(-error));
    refused = error != 0;
}

/*
 * The holder of the pen only. A process that has no context (a launcher that counted the devices)
 * shall not write over the report of the one that works.
 */
void gf_output_report(bool ended)
{
    struct gf_report *report = &gf_process.report;
    const uint64_t begun = gf_now_ns();

    refresh(report, ended);
    if (*report->options->report && report->decided &&
        __atomic_load_n(&gf_process.choice.contexts, __ATOMIC_RELAXED))
        write_report(report);
    report->costs.report_us += (gf_now_ns() - begun) / 1000;
}

/* A file for each process, or for each rank. */
static bool tells_ranks_apart(const char *pattern)
{
    for (const char *p = strchr(pattern, '%'); p && p[1]; p = strchr(p + 2, '%'))
        if (p[1] == 'p' || p[1] == 'r')
            return true;
    return false;
}

/* %j and %t are what Slurm replaces: one file for all would be left of many. */
static void check_pattern(const char *name, const char *pattern)
{
    for (const char *p = strchr(pattern, '%'); p && p[1]; p = strchr(p + 2, '%'))
        if (!strchr("phr%", p[1])) {
            gf_warn("%s: %.2s stays as it is: %%p (the process), %%h (the host) and %%r (the rank) are replaced",
                    name, p);
            return;
        }
}

void gf_output_check(void)
{
    const struct gf_options *options = gf_process.report.options;
    const struct gf_rank *rank = &gf_process.facts.rank;
    const char *report = options->report;

    check_pattern("GPUFEED_LOG", options->log);
    check_pattern("GPUFEED_REPORT", report);
    if (!*report || strncmp(report, "/dev/", 5) == 0)
        return; /* a device is appended to */
    if (strcmp(report, options->log) == 0)
        gf_warn("GPUFEED_REPORT: %s is the log, too, and takes its place: name another file", report);
    if (rank->local_size > 1 && rank->local_rank <= 0 && !tells_ranks_apart(report))
        gf_warn("GPUFEED_REPORT: %d ranks write %s, and the last one stays: put %%r, the rank, into the name",
                rank->local_size, report);
}

static void begin_event(struct gf_json *json, char *buf, size_t size)
{
    *json = (struct gf_json){.buf = buf, .size = size};
    gf_json_begin(json, NULL, '{');
}

static void log_event(struct gf_json *json, const char *event)
{
    gf_json_end(json, '}');
    if (gf_json_close(json))
        gf_process.door->log(event, json->buf);
}

void gf_output_note(enum gf_report_event_kind kind, const char *text)
{
    char line[512];
    struct gf_json json;

    if (gf_process.door->log_wanted()) {
        begin_event(&json, line, sizeof(line));
        gf_json_text(&json, "text", text);
        log_event(&json, gf_report_event_name(kind));
    }
    if (kind == gf_report_ring)
        return; /* counted in the report, and too many for a list */
    const unsigned row = __atomic_fetch_add(&event_count, 1, __ATOMIC_RELAXED);
    if (row < GF_REPORT_EVENTS) {
        events[row].event = (struct gf_report_event){.kind = kind, .at_ms = gf_elapsed_ms()};
        gf_fmt(events[row].event.text, sizeof(events[row].event.text), "%s", text);
        __atomic_store_n(&events[row].ready, true, __ATOMIC_RELEASE);
    }
}

void gf_output_event(enum gf_report_event_kind kind, const char *format, ...)
{
    char text[sizeof(((struct gf_report_event *)0)->text)];
    va_list args;

    va_start(args, format);
    gf_vfmt(text, sizeof(text), format, args);
    va_end(args);
    gf_info("%s", text);
    gf_output_note(kind, text);
}

void gf_output_decision(const struct gf_decision *decision)
{
    const struct gf_options *options = gf_process.door->options;
    const struct gf_verdict *verdict = &decision->verdict;
    char text[768], line[4096], cpus[512];
    struct gf_json json;

    gf_summary_verdict(decision, options, text, sizeof(text));
    gf_log(verdict->warn ? GF_LOG_WARN : GF_LOG_INFO, "%s", text);
    if (!gf_process.door->log_wanted())
        return;
    begin_event(&json, line, sizeof(line));
    gf_json_text(&json, "text", text);
    gf_json_text(&json, "choice", decision->choice);
    gf_json_text(&json, "bound", gf_bound_name(verdict->bound));
    gf_json_bool(&json, "in_force", decision->bound);
    gf_json_text(&json, "cpus", gf_set_format(&decision->cpus, cpus, sizeof(cpus)));
    gf_json_text(&json, "reason", verdict->reason);
    log_event(&json, "decided");
}
