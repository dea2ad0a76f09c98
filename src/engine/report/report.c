/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/sections.h"

#include "abi/formats.h"
#include "base/atomic.h"
#include "base/json.h"
#include "config/option_text.h"
#include "host/mempolicy.h"
#include "host/verdict.h"

static void put_cpus(struct gf_json *json, const char *key, const struct gf_cpus *cpus)
{
    char list[1024];
    gf_json_text(json, key, gf_set_format(cpus, list, sizeof(list)));
}

static void put_nodes(struct gf_json *json, const char *key, const struct gf_nodes *nodes)
{
    gf_json_array(json, key);
    for (int node = gf_set_next(nodes, 0); node >= 0; node = gf_set_next(nodes, (unsigned)node + 1))
        gf_json_int(json, NULL, node);
}

/* Writes "ok" if error is 0, otherwise the name of the error. */
static void put_errno(struct gf_json *json, const char *key, int error)
{
    gf_json_text(json, key, error ? strerrorname_np(error) : "ok");
}

static void put_options(struct gf_json *json, const struct gf_options *options)
{
    static const char *const origins[] = {"default", "environment", "rejected"};
    char number[24];

    gf_json_object(json, "options");
    for (size_t i = 0; i < GF_OPTION_COUNT; i++) {
        const struct gf_option_row *row = &gf_option_rows[i];
        gf_json_object(json, row->name);
        gf_json_text(json, "value", gf_option_text_value(options, row, number, sizeof(number)));
        gf_json_text(json, "origin", origins[gf_option_origin(options, row)]);
    }
}

static void put_node(struct gf_json *json, const struct gf_node *node)
{
    gf_json_object(json, NULL);
    gf_json_int(json, "id", node->id);
    gf_json_int(json, "package", node->package);
    put_cpus(json, "cpus", &node->cpus);
    gf_json_bool(json, "has_memory", node->has_memory);
    gf_json_bool(json, "is_device", node->is_device);
    gf_json_bool(json, "is_gpu", node->is_gpu);
    gf_json_size(json, "memory_bytes", node->memory_bytes);
}

static void put_machine(struct gf_json *json, const struct gf_report *report)
{
    const struct gf_machine *machine = report->machine;

    if (!gf_json_known(json, "machine", machine))
        return;
    gf_json_object(json, "machine");
    gf_json_bool(json, "recorded", machine->recorded);
    put_cpus(json, "online", &machine->online);
    gf_json_size(json, "cores", machine->core_count);
    gf_json_array(json, "nodes");
    for (size_t i = 0; i < machine->node_count; i++)
        put_node(json, &machine->nodes[i]);
}

static void put_start(struct gf_json *json, const struct gf_report *report)
{
    const struct gf_facts *facts = report->facts;

    gf_json_object(json, "start");
    put_cpus(json, "cpus", &facts->start);
    put_cpus(json, "cpuset", &facts->cpuset);
    put_nodes(json, "mems", &facts->mems);
    gf_json_text(json, "policy",
                 facts->start_policy < 0 ? strerrorname_np(-facts->start_policy)
                                         : gf_mempolicy_name(facts->start_policy));
    put_nodes(json, "policy_nodes", &facts->start_policy_nodes);
    gf_json_milli(json, "cpu_quota", (uint64_t)(facts->cpu_quota * 1000));
    gf_json_text(json, "pinning", facts->pinning_source);
    gf_json_text(json, "binder", facts->binder_source);
    gf_json_bool(json, "numa_balancing", facts->numa_balancing);
    gf_json_int(json, "threads", facts->threads);
    gf_json_bool(json, "inherited", report->hint != NULL);
    gf_json_object(json, "rank");
    gf_json_text(json, "source", facts->rank.source);
    gf_json_int(json, "rank", facts->rank.rank);
    gf_json_int(json, "local_rank", facts->rank.local_rank);
    gf_json_int(json, "local_size", facts->rank.local_size);
}

static void put_gpus(struct gf_json *json, const struct gf_decision *decision)
{
    gf_json_array(json, "gpus");
    for (size_t i = 0; i < decision->gpu_count; i++) {
        const struct gf_gpu *gpu = &decision->gpus[i];
        gf_json_object(json, NULL);
        gf_json_int(json, "device", gpu->device);
        gf_json_text(json, "name", gpu->name);
        gf_json_text(json, "pci", gpu->bdf);
        gf_json_known_int(json, "driver_node", gpu->attr_node);
        gf_json_known_int(json, "nvml_node", gpu->nvml_node);
        gf_json_bool(json, "mps", gpu->mps);
    }
}

static void put_verdict(struct gf_json *json, const struct gf_report *report)
{
    const struct gf_decision *decision = &report->decision;
    const struct gf_verdict *verdict = &decision->verdict;

    if (!gf_json_known(json, "verdict", report->decided))
        return;
    gf_json_object(json, "verdict");
    gf_json_text(json, "choice", decision->choice);
    gf_json_bool(json, "settled", decision->settled);
    gf_json_text(json, "bound", gf_bound_name(verdict->bound));
    put_cpus(json, "cpus", &verdict->cpus);
    put_nodes(json, "nodes", &verdict->nodes);
    gf_json_text(json, "node_source", verdict->node_source);
    gf_json_text(json, "policy", gf_mempolicy_name(verdict->policy));
    put_nodes(json, "policy_nodes", &verdict->policy_nodes);
    gf_json_text(json, "policy_reason", verdict->policy_reason);
    gf_json_text(json, "reason", verdict->reason);
    gf_json_text(json, "remedy", *verdict->remedy ? verdict->remedy : NULL);
    gf_json_bool(json, "warn", verdict->warn);
}

static void put_probe(struct gf_json *json, const struct gf_report *report)
{
    const struct gf_probe *probe = &report->decision.probe;

    if (!gf_json_known(json, "probe", report->decision.probed))
        return;
    gf_json_object(json, "probe");
    put_errno(json, "set_affinity", probe->set_affinity);
    put_errno(json, "get_mempolicy", probe->get_mempolicy);
    put_errno(json, "set_mempolicy", probe->set_mempolicy);
    put_errno(json, "preferred_many", probe->preferred_many);
    put_errno(json, "mbind", probe->mbind);
}

static void put_threads(struct gf_json *json, const char *key, const struct gf_threads *threads)
{
    gf_json_numbers(json, key, {"program", threads->program}, {"on_target", threads->on_target},
                    {"elsewhere", threads->elsewhere}, {"self_set", threads->self_set},
                    {"driver", threads->driver}, {"driver_on_target", threads->driver_on_target},
                    {"library", threads->library});
}

static void put_binding(struct gf_json *json, const struct gf_report *report)
{
    const struct gf_decision *decision = &report->decision;
    const struct gf_bind_result *bind = &decision->bind;

    gf_json_object(json, "binding");
    gf_json_bool(json, "in_force", decision->bound);
    put_cpus(json, "cpus", &decision->cpus);
    put_threads(json, "threads", &decision->threads);
    gf_json_int(json, "failed", bind->failed);
    gf_json_int(json, "descendants", bind->descendants);
    gf_json_int(json, "late_threads", gf_load_relaxed(&report->counts->late_threads));
    gf_json_text(json, "error", bind->error ? strerrorname_np(bind->error) : NULL);
    gf_json_int(json, "us", bind->usec);
    gf_json_int(json, "rebindings", decision->rebindings);
    gf_json_text(json, "policy", gf_mempolicy_name(decision->policy));
    gf_json_text(json, "policy_error",
                 decision->policy_error ? strerrorname_np(decision->policy_error) : NULL);
    gf_json_int(json, "policy_threads", gf_load_relaxed(&report->counts->policy_threads));
    gf_json_int(json, "policy_refused", gf_load_relaxed(&report->counts->policy_refused));
    gf_json_int(json, "policy_kept", report->policy_kept);
}

static void put_samples(struct gf_json *json, const struct gf_report *report)
{
    gf_json_array(json, "samples");
    for (size_t i = 0; i < report->sample_count; i++) {
        const struct gf_report_sample *sample = &report->samples[i];
        gf_json_object(json, NULL);
        gf_json_milli(json, "at_s", sample->at_ms);
        put_threads(json, "threads", &sample->threads);
        if (sample->locality.known) {
            gf_report_memory_put_pages(json, "heap", &sample->locality.heap);
            if (sample->locality.whole)
                gf_report_memory_put_pages(json, "other", &sample->locality.other);
            gf_json_size(json, "us", sample->locality.usec);
        }
    }
}

static void put_events(struct gf_json *json, const struct gf_report *report)
{
    gf_json_begin(json, "events", '[');
    for (size_t i = 0; i < report->event_count; i++) {
        const struct gf_report_event *event = &report->events[i];
        gf_json_object(json, NULL);
        gf_json_text(json, "event", gf_report_event_name(event->kind));
        gf_json_milli(json, "at_s", event->at_ms);
        gf_json_text(json, "text", event->text);
    }
    gf_json_end(json, ']');
    gf_json_object(json, "guard");
    gf_json_milli(json, "run_s", report->guard_run_ns / 1000000);
    gf_json_milli(json, "delay_s", report->guard_delay_ns / 1000000);
    gf_json_milli(json, "throttled_s", report->guard_throttled_ns / 1000000);
}

static void put_hooks(struct gf_json *json, gf_hook_counts_fn *hook_counts)
{
    struct gf_hook_counts counts;

    gf_json_begin(json, "hooks", '{');
    for (size_t i = 0; hook_counts(i, &counts); i++)
        if (counts.calls)
            gf_json_size(json, counts.name, counts.calls);
    gf_json_end(json, '}');
}

static void put_costs(struct gf_json *json, const struct gf_report *report)
{
    const struct gf_report_costs *costs = &report->costs;

    gf_json_numbers(json, "costs_us", {"start", costs->start_us},
                    {"decide", gf_load_relaxed(&report->counts->decide_us)},
                    {"sample", costs->sample_us}, {"migrate", costs->migrate_us},
                    {"report", costs->report_us}, {"thread_cpu", costs->thread_us});
}

static void put_process(struct gf_json *json, const struct gf_report *report)
{
    gf_json_int(json, "schema", GF_REPORT_SCHEMA);
    gf_json_text(json, "version", report->preload->version);
    gf_json_int(json, "pid", report->pid);
    gf_json_text(json, "program", report->program);
    gf_json_text(json, "job", *report->job ? report->job : NULL);
    gf_json_size(json, "started", report->started_s);
    gf_json_milli(json, "written_at", report->written_ms);
    gf_json_milli(json, "ran_s", report->ran_ms);
    gf_json_text(json, "state", report->ended ? "ended" : "running");
    gf_json_bool(json, "observe", report->preload->options->mode == gf_mode_observe);
}

size_t gf_report_json(const struct gf_report *report, char *buf, size_t size)
{
    struct gf_json json = {.buf = buf, .size = size, .lines = true};

    gf_json_begin(&json, NULL, '{');
    put_process(&json, report);
    put_options(&json, report->preload->options);
    put_machine(&json, report);
    put_start(&json, report);
    put_gpus(&json, &report->decision);
    put_verdict(&json, report);
    put_probe(&json, report);
    put_binding(&json, report);
    put_threads(&json, "threads_peak", &report->peak);
    gf_json_int(&json, "descendants_peak", gf_load_relaxed(&report->counts->peak_descendants));
    gf_report_memory_put(&json, report);
    gf_report_kept_put(&json, report);
    gf_report_gpu_time_put(&json, &report->gpu_time, report->started_ns);
    gf_report_stalls_put(&json, report);
    gf_report_transfers_put(&json, &report->transfers, report->preload->hook_counts);
    gf_report_copy_waits_put(&json, report);
    gf_report_steps_put(&json, report);
    put_samples(&json, report);
    put_events(&json, report);
    gf_json_size(&json, "device_bytes", report->driver_bytes);
    put_hooks(&json, report->preload->hook_counts);
    put_costs(&json, report);
    gf_json_end(&json, '}');
    gf_json_close(&json);
    return json.at;
}

void gf_report_add_sample(struct gf_report *report, const struct gf_report_sample *sample)
{
    if (report->sample_count == GF_REPORT_SAMPLES) {
        for (size_t i = 0; i < GF_REPORT_SAMPLES / 2; i++)
            report->samples[i] = report->samples[2 * i];
        report->sample_count = GF_REPORT_SAMPLES / 2;
    }
    report->samples[report->sample_count++] = *sample;
    const struct gf_threads *now = &sample->threads, *peak = &report->peak;
    /*
     * If several samples have the largest number of threads, the newest is kept. In an earlier one,
     * a new thread may still have had its creator's mask.
     */
    if (now->program >= peak->program)
        report->peak = *now;
}

const char *gf_report_event_name(enum gf_report_event_kind kind)
{
    static const char *const names[] = {"rebound",    "widened", "left_to_driver",
                                        "standstill", "resumed", "ring"};
    return names[kind];
}
