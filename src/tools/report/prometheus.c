/* SPDX-License-Identifier: Apache-2.0 */
#include "abi/formats.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"
#include "tools/report/outputs.h"

#include <stdlib.h>

/*
 * Values by name. Different names of a report may be equal once they are cut and made plain, and a
 * metric must not have two lines with equal labels.
 */
struct named {
    struct gf_text_pool names;
    double *values; /* by the number of the name */
    size_t room;
};

/* Stalls of an owner and cause. */
struct sum {
    uint32_t owner, cause; /* number of the cause's name */
    double count, s;
};

/*
 * Processes with the same labels. After execve, the job has two processes with the same pid, and so with
 * equal labels. A metric must not have two lines with equal labels, so one line has the sum of these processes.
 */
struct owner {
    uint32_t
        first; /* for each process: the index of the first one with its labels. Only that one has: */
    uint32_t report; /* 1 + the first of them that has a report; 0: none has */
    bool logged;     /* a log contains lines of one of them */
    double delay_s;
};

struct metrics {
    FILE *out;
    const struct gf_job *job;
    struct owner *owners;             /* by process */
    struct gf_text_pool causes, keys; /* keys: owner and cause */
    struct sum *sums;                 /* by the number of the key */
    size_t room;
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
        fprintf(metrics->out, "%ld", at->rank);
    fprintf(metrics->out, "\",pid=\"%ld\"", at->pid);
    if (*host)
        label(metrics->out, "host", host);
}

static void value(const struct metrics *metrics, double number)
{
    fprintf(metrics->out, "} %.10g\n", number);
}

static void find_owners(struct metrics *metrics)
{
    const struct gf_job *job = metrics->job;
    const size_t count = job->process_count;
    struct gf_text_pool labels = {0};
    GF_OWNED uint32_t *first =
        gf_cli_alloc(count + 2, sizeof(*first)); /* by the number of the labels */
    bool is_new;

    metrics->owners = gf_cli_alloc(count, sizeof(*metrics->owners));
    for (uint32_t i = 0; i < count; i++) {
        const struct gf_job_process *process = &job->processes[i];
        /* A rank below 0 is no rank. */
        const int64_t key[] = {process->pid, gf_max(process->rank, (int64_t)-1), process->host};
        const uint32_t number = gf_text_pool_add(&labels, (const char *)key, sizeof(key), &is_new);
        if (is_new)
            first[number] = i;
        metrics->owners[i].first = first[number];
        struct owner *owner = &metrics->owners[first[number]];
        owner->delay_s += (double)process->delay_ms / 1000;
        owner->logged |= process->logged;
        if (process->report && !owner->report)
            owner->report = i + 1;
    }
    gf_text_pool_free(&labels);
}

/* Whether the process has a report, and no earlier process with the same labels has one. */
static bool has_report(const struct metrics *metrics, size_t process)
{
    return metrics->owners[metrics->owners[process].first].report == process + 1 &&
           !metrics->job->processes[process].excluded;
}

typedef void print_fn(const struct metrics *metrics, enum gf_metric metric, size_t process);

static void print_each(const struct metrics *metrics, enum gf_metric metric, print_fn *print)
{
    head(metrics, metric);
    for (size_t i = 0; i < metrics->job->process_count; i++)
        if (has_report(metrics, i))
            print(metrics, metric, i);
}

static void add_named(struct named *named, const char *name, double value)
{
    const uint32_t number = gf_text_pool_put(&named->names, gf_report_plain(name, 64 + 24));

    *GF_POOL_SLOT(named->values, number, named->room) += value;
}

static void free_named(struct named *named)
{
    gf_text_pool_free(&named->names);
    free(named->values);
}

/*
 * A job may have a process for each worker of each epoch, so the processes share the pools: an empty pool
 * has 8 KiB.
 */
static void count_stalls(struct metrics *metrics, uint32_t owner, const char *cause, double count,
                         double seconds)
{
    const uint32_t name = gf_text_pool_put(&metrics->causes, gf_report_plain(cause, 64 + 24));
    const uint32_t key[] = {owner, name};
    bool is_new;

    if (!name)
        return;
    const uint32_t number =
        gf_text_pool_add(&metrics->keys, (const char *)key, sizeof(key), &is_new);
    struct sum *sum = GF_POOL_SLOT(metrics->sums, number, metrics->room);
    *sum = (struct sum){owner, name, sum->count + count, sum->s + seconds};
}

GF_COMPARATOR(by_owner, struct sum,
              gf_order(one->owner, other->owner) ?: gf_order(one->cause, other->cause))

/* A process without a log has the sums of its report. */
static void sum_stalls(struct metrics *metrics)
{
    const struct gf_job *job = metrics->job;
    const char *cause;
    json_t *row;

    for (size_t i = 0; i < job->stall_count; i++)
        count_stalls(metrics, metrics->owners[job->stalls[i].process].first,
                     gf_tally_label(job, GF_BY_CAUSE, job->stalls[i].cause), 1,
                     job->stalls[i].us / 1e6);
    for (size_t i = 0; i < job->process_count; i++) {
        const uint32_t owner = metrics->owners[i].first;
        if (!has_report(metrics, i) || metrics->owners[owner].logged)
            continue;
        const json_t *stalls = json_object_get(job->processes[i].report, "stalls");
        json_object_foreach(json_object_get(stalls, "causes"), cause, row)
            count_stalls(metrics, owner, cause, gf_report_number(row, "count"),
                         gf_report_number(row, "us") / 1e6);
    }
    if (metrics->keys.count) /* the first key is "" */
        qsort(metrics->sums + 1, metrics->keys.count - 1, sizeof(*metrics->sums), by_owner);
}

static void print_causes(const struct metrics *metrics, enum gf_metric metric)
{
    head(metrics, metric);
    for (uint32_t i = 1; i < metrics->keys.count; i++) {
        const struct sum *sum = &metrics->sums[i];
        line(metrics, metric, sum->owner);
        label(metrics->out, "cause", gf_text_pool_get(&metrics->causes, sum->cause));
        value(metrics, metric == gf_metric_stall_seconds ? sum->s : sum->count);
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
    {gf_metric_kept_bytes, "kept.bytes", 1},
    {gf_metric_heap_bytes, "heap.allocated", 1},
    {gf_metric_headroom_bytes, "heap.watch.headroom_bytes", 1},
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

static void print_info(const struct metrics *metrics, enum gf_metric metric, size_t process)
{
    static const char *const labels[][2] = {
        {"job_id", "job"}, {"program", "program"}, {"version", "version"}};
    const json_t *report = metrics->job->processes[process].report;

    line(metrics, metric, process);
    for (size_t k = 0; k < GF_ARRAY_LEN(labels); k++)
        label(metrics->out, labels[k][0], gf_report_text(report, labels[k][1], 256));
    value(metrics, 1);
}

/* Writes the pinned buffers in use of a process by node. */
static void print_nodes(const struct metrics *metrics, enum gf_metric metric, size_t process)
{
    struct named named = {0};
    const json_t *pinned =
        gf_report_at(metrics->job->processes[process].report, "transfers.pinned_memory");
    const char *node;
    json_t *bytes;

    json_object_foreach(json_object_get(pinned, "in_use_by_node"), node, bytes)
        add_named(&named, node, json_number_value(bytes));
    /* A pool's first text is "". */
    for (uint32_t i = 1; i < named.names.count; i++) {
        line(metrics, metric, process);
        label(metrics->out, "node", gf_text_pool_get(&named.names, i));
        value(metrics, named.values[i]);
    }
    free_named(&named);
}

static void print_ended(const struct metrics *metrics, enum gf_metric metric, size_t process)
{
    const json_t *report = metrics->job->processes[process].report;

    line(metrics, metric, process);
    value(metrics, strcmp(gf_report_text(report, "state", 16), "ended") == 0);
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

/* Writes the time of each GPU of a process by state, or by cause. */
static void print_devices(const struct metrics *metrics, enum gf_metric metric, size_t process)
{
    const bool by_state = metric == gf_metric_gpu_seconds;
    struct named named = {0};
    json_t *device, *row;
    const char *name;
    size_t i;

    json_array_foreach(gf_report_at(metrics->job->processes[process].report, "gpu_time.devices"), i,
                       device)
        json_object_foreach(json_object_get(device, by_state ? "states" : "causes"), name, row) {
            add_named(&named, gf_text("%.0f %.63s", gf_report_number(device, "device"), name),
                      gf_report_number(row, "s"));
        }
    for (uint32_t k = 1; k < named.names.count; k++) {
        const char *text = gf_text_pool_get(&named.names, k), *blank = strchr(text, ' ');
        line(metrics, metric, process);
        label(metrics->out, "device", gf_text("%.*s", (int)(blank - text), text));
        label(metrics->out, by_state ? "state" : "cause", blank + 1);
        value(metrics, named.values[k]);
    }
    free_named(&named);
}

static void print_delays(const struct metrics *metrics)
{
    head(metrics, gf_metric_delay_seconds);
    for (size_t i = 0; i < metrics->job->process_count; i++) {
        const struct owner *owner = &metrics->owners[i];
        if (owner->first != i || metrics->job->processes[i].excluded || !owner->logged)
            continue;
        line(metrics, gf_metric_delay_seconds, i);
        value(metrics, owner->delay_s);
    }
}

static void print_metrics(const struct metrics *metrics)
{
    print_each(metrics, gf_metric_info, print_info);
    print_causes(metrics, gf_metric_stalls);
    print_causes(metrics, gf_metric_stall_seconds);
    print_delays(metrics);
    print_each(metrics, gf_metric_copies, print_ways);
    print_each(metrics, gf_metric_copied_bytes, print_ways);
    print_each(metrics, gf_metric_copy_seconds, print_ways);
    print_each(metrics, gf_metric_gpu_seconds, print_devices);
    print_each(metrics, gf_metric_gpu_empty_seconds, print_devices);
    for (size_t i = 0; i < GF_ARRAY_LEN(gauges); i++)
        print_gauge(metrics, &gauges[i]);
    print_each(metrics, gf_metric_pinned_bytes, print_nodes);
    print_each(metrics, gf_metric_ended, print_ended);
}

void gf_prometheus_write(FILE *out, const struct gf_answer *answer)
{
    struct metrics metrics = {.out = out, .job = answer->job};

    find_owners(&metrics);
    sum_stalls(&metrics);
    print_metrics(&metrics);
    gf_text_pool_free(&metrics.causes);
    gf_text_pool_free(&metrics.keys);
    free(metrics.sums);
    free(metrics.owners);
}
