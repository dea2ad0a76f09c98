/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/files/prometheus.h"

#include "base/metrics.h"
#include "cli/report/input/report_file.h"
#include "cli/report/sums/copies.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Stalls of one process and cause. */
struct sum {
    uint32_t process, cause;
    uint64_t count, us;
};

struct metrics {
    FILE *out;
    const struct gf_job *job;
    /*
     * For each process, the index of the first process with the same labels. After execve, the job
     * has two processes with the same pid, and so with equal labels. A metric must not have two
     * lines with equal labels, so one line has the sum of these processes.
     */
    uint32_t *owners;
    double *delays; /* seconds, by owner */
    struct sum *sums;
    size_t count;
};

static void head(const struct metrics *metrics, enum gf_metric metric)
{
    const struct gf_metric_row *row = gf_metric_row(metric);

    fprintf(metrics->out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
            row->type);
}

static void label(FILE *out, const char *name, const char *value)
{
    fprintf(out, ",%s=\"", name);
    for (; *value; value++)
        fprintf(out, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
    fputc('"', out);
}

/* Begins a line: the metric's name, and the labels that all lines have. */
static void line(const struct metrics *metrics, enum gf_metric metric, size_t process)
{
    const struct gf_job_process *at = &metrics->job->processes[process];
    const char *host = gf_job_text(metrics->job, at->host);

    fprintf(metrics->out, "%s{rank=\"", gf_metric_row(metric)->name);
    if (at->rank >= 0)
        fprintf(metrics->out, "%" PRId64, at->rank);
    fprintf(metrics->out, "\",pid=\"%" PRId64 "\"", at->pid);
    if (*host)
        label(metrics->out, "host", host);
}

static void value(const struct metrics *metrics, double number)
{
    fprintf(metrics->out, "} %.10g\n", number);
}

static int by_cause(const void *a, const void *b)
{
    const struct sum *one = a, *other = b;

    if (one->process != other->process)
        return one->process < other->process ? -1 : 1;
    return one->cause < other->cause ? -1 : one->cause > other->cause;
}

static bool same_labels(const struct gf_job_process *a, const struct gf_job_process *b)
{
    return a->pid == b->pid && a->rank == b->rank && a->host == b->host;
}

static bool find_owners(struct metrics *metrics)
{
    const struct gf_job *job = metrics->job;

    metrics->owners = calloc(job->process_count + 1, sizeof(*metrics->owners));
    metrics->delays = calloc(job->process_count + 1, sizeof(*metrics->delays));
    if (!metrics->owners || !metrics->delays)
        return false;
    for (uint32_t i = 0; i < job->process_count; i++) {
        uint32_t owner = 0;
        while (owner < i && !same_labels(&job->processes[owner], &job->processes[i]))
            owner++;
        metrics->owners[i] = owner;
        metrics->delays[owner] += (double)job->processes[i].delay_ms / 1000;
    }
    return true;
}

/* Whether the process has a report, and no earlier process with the same labels has one. */
static bool has_report(const struct metrics *metrics, size_t process)
{
    const struct gf_job_process *list = metrics->job->processes;

    for (size_t i = metrics->owners[process]; i < process; i++)
        if (metrics->owners[i] == metrics->owners[process] && list[i].report)
            return false;
    return list[process].report && !list[process].excluded;
}

/* Whether a log contains lines of a process with the same labels as `owner`. */
static bool is_logged(const struct metrics *metrics, size_t owner)
{
    for (size_t i = owner; i < metrics->job->process_count; i++)
        if (metrics->owners[i] == owner && metrics->job->processes[i].logged)
            return true;
    return false;
}

static bool sum_stalls(struct metrics *metrics)
{
    const struct gf_job *job = metrics->job;
    size_t kept = 0;

    metrics->sums = calloc(job->stall_count + 1, sizeof(*metrics->sums));
    if (!metrics->sums)
        return false;
    for (size_t i = 0; i < job->stall_count; i++)
        metrics->sums[i] = (struct sum){metrics->owners[job->stalls[i].process],
                                        job->stalls[i].cause, 1, job->stalls[i].us};
    qsort(metrics->sums, job->stall_count, sizeof(*metrics->sums), by_cause);
    for (size_t i = 0; i < job->stall_count; i++) {
        if (kept && by_cause(&metrics->sums[kept - 1], &metrics->sums[i]) == 0) {
            metrics->sums[kept - 1].count++;
            metrics->sums[kept - 1].us += metrics->sums[i].us;
        } else {
            metrics->sums[kept++] = metrics->sums[i];
        }
    }
    metrics->count = kept;
    return true;
}

/* Whether the stalls of a process are known only from its report, because it has no log. */
static bool only_reported(const struct metrics *metrics, size_t process)
{
    return has_report(metrics, process) && !is_logged(metrics, metrics->owners[process]);
}

static void print_causes(const struct metrics *metrics, enum gf_metric metric)
{
    const struct gf_job *job = metrics->job;
    const bool seconds = metric == gf_metric_stall_seconds;

    head(metrics, metric);
    for (size_t i = 0; i < metrics->count; i++) {
        const struct sum *sum = &metrics->sums[i];
        line(metrics, metric, sum->process);
        label(metrics->out, "cause", gf_job_text(job, sum->cause));
        value(metrics, seconds ? (double)sum->us / 1e6 : (double)sum->count);
    }
    for (size_t i = 0; i < job->process_count; i++) {
        const char *cause;
        json_t *row,
            *causes =
                only_reported(metrics, i)
                    ? json_object_get(json_object_get(job->processes[i].report, "stalls"), "causes")
                    : NULL;
        json_object_foreach(causes, cause, row)
        {
            char text[64];
            line(metrics, metric, i);
            label(metrics->out, "cause", gf_report_plain(cause, text, sizeof(text)));
            value(metrics,
                  seconds ? gf_report_number(row, "us") / 1e6 : gf_report_number(row, "count"));
        }
    }
}

/*
 * Metrics whose value is a number at `path` in a report. `scale` converts the number to the
 * metric's unit.
 */
static const struct gauge {
    enum gf_metric metric;
    const char *path;
    double scale;
} gauges[] = {
    {gf_metric_steps, "steps.ended", 1},
    {gf_metric_step_seconds, "steps.us", 1e-6},
    {gf_metric_run_seconds, "ran_s", 1},
    {gf_metric_ring_bytes, "transfers.ring.bytes", 1},
    {gf_metric_ring_waits, "transfers.ring.stream_waits", 1},
    {gf_metric_pinned_cache_bytes, "transfers.pinned_memory.cached_bytes", 1},
    {gf_metric_dropped_lines, "log.dropped", 1},
    {gf_metric_device_bytes, "device_bytes", 1},
};

static void print_gauge(const struct metrics *metrics, const struct gauge *gauge)
{
    const struct gf_job *job = metrics->job;

    head(metrics, gauge->metric);
    for (size_t i = 0; i < job->process_count; i++)
        if (has_report(metrics, i) &&
            json_is_number(gf_report_at(job->processes[i].report, gauge->path))) {
            line(metrics, gauge->metric, i);
            value(metrics, gf_report_number(job->processes[i].report, gauge->path) * gauge->scale);
        }
}

static void print_ended(const struct metrics *metrics)
{
    const struct gf_job *job = metrics->job;
    char state[16];

    head(metrics, gf_metric_ended);
    for (size_t i = 0; i < job->process_count; i++)
        if (has_report(metrics, i)) {
            line(metrics, gf_metric_ended, i);
            value(metrics,
                  strcmp(gf_report_text(job->processes[i].report, "state", state, sizeof(state)),
                         "ended") == 0);
        }
}

static double part(const struct gf_copy_sum *sum, enum gf_metric metric)
{
    return metric == gf_metric_copies         ? sum->calls
           : metric == gf_metric_copied_bytes ? sum->bytes
                                              : sum->duration_s;
}

static void print_ways(const struct metrics *metrics, enum gf_metric metric, size_t process)
{
    struct gf_copies copies = {0};

    gf_copies_add(&copies, metrics->job->processes[process].report);
    for (int i = 0; copies.reports && i < GF_DIRECTIONS; i++)
        for (int way = 0; way < GF_WAYS; way++) {
            line(metrics, metric, process);
            label(metrics->out, "direction", gf_direction_names[i]);
            label(metrics->out, "way", gf_way_names[way]);
            value(metrics, part(&copies.ways[i][way], metric));
        }
}

static void print_copies(const struct metrics *metrics, enum gf_metric metric)
{
    head(metrics, metric);
    for (size_t i = 0; i < metrics->job->process_count; i++)
        if (has_report(metrics, i))
            print_ways(metrics, metric, i);
}

/* Writes the time of each GPU of a process by state, or by cause. */
static void print_devices(const struct metrics *metrics, enum gf_metric metric, size_t process)
{
    const bool by_state = metric == gf_metric_gpu_seconds;
    json_t *device, *row;
    const char *name;
    size_t i;

    json_array_foreach(gf_report_at(metrics->job->processes[process].report, "gpu_time.devices"), i,
                       device)
        json_object_foreach(json_object_get(device, by_state ? "states" : "causes"), name, row)
    {
        char text[64], number[24];
        snprintf(number, sizeof(number), "%.0f", gf_report_number(device, "device"));
        line(metrics, metric, process);
        label(metrics->out, "device", number);
        label(metrics->out, by_state ? "state" : "cause",
              gf_report_plain(name, text, sizeof(text)));
        value(metrics, gf_report_number(row, "s"));
    }
}

static void print_gpu_time(const struct metrics *metrics, enum gf_metric metric)
{
    head(metrics, metric);
    for (size_t i = 0; i < metrics->job->process_count; i++)
        if (has_report(metrics, i))
            print_devices(metrics, metric, i);
}

static void print_delays(const struct metrics *metrics)
{
    head(metrics, gf_metric_delay_seconds);
    for (size_t i = 0; i < metrics->job->process_count; i++)
        if (metrics->owners[i] == i && !metrics->job->processes[i].excluded &&
            is_logged(metrics, i)) {
            line(metrics, gf_metric_delay_seconds, i);
            value(metrics, metrics->delays[i]);
        }
}

static void print_metrics(const struct metrics *metrics)
{
    print_causes(metrics, gf_metric_stalls);
    print_causes(metrics, gf_metric_stall_seconds);
    print_delays(metrics);
    print_copies(metrics, gf_metric_copies);
    print_copies(metrics, gf_metric_copied_bytes);
    print_copies(metrics, gf_metric_copy_seconds);
    print_gpu_time(metrics, gf_metric_gpu_seconds);
    print_gpu_time(metrics, gf_metric_gpu_empty_seconds);
    for (size_t i = 0; i < GF_ARRAY_LEN(gauges); i++)
        print_gauge(metrics, &gauges[i]);
    print_ended(metrics);
}

bool gf_prometheus_write(FILE *out, const struct gf_answer *answer)
{
    struct metrics metrics = {.out = out, .job = answer->job};

    const bool whole = find_owners(&metrics) && sum_stalls(&metrics);
    if (whole)
        print_metrics(&metrics);
    free(metrics.sums);
    free(metrics.owners);
    free(metrics.delays);
    return whole;
}
