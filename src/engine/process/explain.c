/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/explain.h"

#include "base/fmt.h"
#include "base/log.h"
#include "host/mempolicy.h"
#include "host/facts.h"
#include "host/verdict.h"

#include <linux/mempolicy.h>
#include <string.h>

#define EXPLAIN(...) gf_log_explain(gf_log_area_place, __VA_ARGS__)

void gf_explain_heap(const struct gf_heap_ops *heap)
{
    struct gf_heap_setting setting;
    struct gf_heap_huge huge;

    if (!gf_log_wants_area(gf_log_area_heap))
        return;
    gf_log_explain(gf_log_area_heap, "%s serves malloc: %s",
                   heap->mode == gf_heap_mode_replace ? "the embedded jemalloc"
                                                      : "another allocator",
                   heap->mode_reason);
    for (size_t i = 0; heap->setting && heap->setting(i, &setting); i++)
        gf_log_explain(gf_log_area_heap, "%s=%s (%s)", setting.name, setting.value,
                       setting.ours ? setting.reason : "set by MALLOC_CONF or /etc/malloc.conf");
    if (heap->ignored_conf && *heap->ignored_conf())
        gf_log_explain(gf_log_area_heap, "ignored in MALLOC_CONF or /etc/malloc.conf: %s",
                       heap->ignored_conf());
    if (heap->huge) {
        heap->huge(&huge);
        gf_log_explain(gf_log_area_heap, "huge pages %s: %s", huge.on ? "on" : "off", huge.reason);
    }
}

static const char *probe_text(int error)
{
    return error == GF_UNTRIED ? "not tried" : error ? strerrorname_np(error) : "permitted";
}

/* Writes "node 1", or "no node". */
static const char *node_text(int node, char ret[16])
{
    gf_fmt(ret, 16, node < 0 ? "no node" : "node %d", node);
    return ret;
}

static void explain_gpus(const struct gf_decision *decision)
{
    const struct gf_verdict *verdict = &decision->verdict;
    char nodes[64], nvml[16], driver[16];

    for (size_t i = 0; i < decision->gpu_count; i++)
        EXPLAIN("GPU %d %s (%s, %s): NVML reports %s, the driver reports %s",
                decision->gpus[i].device, decision->gpus[i].bdf, decision->choice,
                decision->settled ? "settled" : "provisional",
                node_text(decision->gpus[i].nvml_node, nvml),
                node_text(decision->gpus[i].attr_node, driver));
    if (gf_set_empty(&verdict->nodes))
        EXPLAIN("the GPU's node is unknown");
    else
        EXPLAIN("the GPU's node is %s, from %s",
                gf_set_format(&verdict->nodes, nodes, sizeof(nodes)), verdict->node_source);
}

static void explain_facts(const struct gf_facts *facts)
{
    char start[128], allowed[128], mems[64];
    const unsigned tenths = (unsigned)(facts->cpu_quota * 10 + 0.5);

    EXPLAIN("started on CPUs %s; CPUs %s and memory of nodes %s are allowed",
            gf_set_format(&facts->start, start, sizeof(start)),
            gf_set_format(&facts->cpuset, allowed, sizeof(allowed)),
            gf_set_format(&facts->mems, mems, sizeof(mems)));
    EXPLAIN(
        "CPU quota %u.%u (0.0: none); pinning variable: %s; framework's binder: %s; launcher: %s",
        tenths / 10, tenths % 10, facts->single_cpu_pinning ? facts->pinning_source : "none",
        facts->binder_source ? facts->binder_source : "none",
        facts->rank.source ? facts->rank.source : "none");
}

void gf_explain_place(const struct gf_decision *decision, const struct gf_facts *facts)
{
    const struct gf_verdict *verdict = &decision->verdict;
    char cpus[128];

    if (!gf_log_wants_area(gf_log_area_place))
        return;
    explain_gpus(decision);
    explain_facts(facts);
    if (decision->probed)
        EXPLAIN("kernel: sched_setaffinity %s, set_mempolicy %s, mbind %s",
                probe_text(decision->probe.set_affinity), probe_text(decision->probe.set_mempolicy),
                probe_text(decision->probe.mbind));
    EXPLAIN("CPUs: %s%s%s%s: %s", verdict->bound == gf_bound_none ? "not bound" : "bind to ",
            verdict->bound == gf_bound_none ? "" : gf_bound_name(verdict->bound),
            verdict->bound == gf_bound_none ? "" : ", CPUs ",
            verdict->bound == gf_bound_none ? ""
                                            : gf_set_format(&verdict->cpus, cpus, sizeof(cpus)),
            verdict->reason);
    EXPLAIN("memory: policy %s: %s",
            verdict->policy == MPOL_DEFAULT ? "unchanged" : gf_mempolicy_name(verdict->policy),
            verdict->policy_reason);
    if (!decision->observe)
        EXPLAIN("threads: %u bound, %u left as they were, %u failed; %u threads of child processes "
                "bound; "
                "this took %u us",
                decision->bind.bound, decision->bind.left, decision->bind.failed,
                decision->bind.descendants, decision->bind.usec);
}
