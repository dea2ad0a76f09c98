/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/duties.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "base/log.h"
#include "engine/process/process_state.h"
#include "engine/process/thread_binding.h"
#include "host/gpu.h"
#include "host/machine.h"
#include "host/mempolicy.h"
#include "host/tasks.h"
#include "host/verdict.h"

#include <linux/mempolicy.h>
#include <stdlib.h>

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
        tenths / 10, tenths % 10, facts->pinning_source ? facts->pinning_source : "none",
        facts->binder_source ? facts->binder_source : "none",
        facts->rank.source ? facts->rank.source : "none");
}

static void explain_place(const struct gf_decision *decision, const struct gf_facts *facts)
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
    if (verdict->bound == gf_bound_none)
        EXPLAIN("CPUs: not bound: %s", verdict->reason);
    else
        EXPLAIN("CPUs: bind to %s, CPUs %s: %s", gf_bound_name(verdict->bound),
                gf_set_format(&verdict->cpus, cpus, sizeof(cpus)), verdict->reason);
    EXPLAIN("memory: policy %s: %s",
            verdict->policy == MPOL_DEFAULT ? "unchanged" : gf_mempolicy_name(verdict->policy),
            verdict->policy_reason);
    if (!decision->observe)
        EXPLAIN("threads: %u bound, %u left as they were, %u failed; %u threads of child processes "
                "bound; this took %u us",
                decision->bind.bound, decision->bind.left, decision->bind.failed,
                decision->bind.descendants, decision->bind.usec);
}

static void read_gpus(struct gf_decision *ret)
{
    struct gf_process *p = &gf_process;
    /* On a machine with one node nothing is bound, so the GPU's node is not needed. */
    const bool several = p->machine && p->machine->node_count > 1;

    for (int device = 0; device < GF_CHOICE_DEVICES; device++) {
        if (!(p->choice.chosen >> device & 1) || ret->gpu_count == GF_DECISION_GPUS)
            continue;
        struct gf_gpu *gpu = &ret->gpus[ret->gpu_count++];
        gf_gpu_read(gf_process.preload->cuda, device, several, gpu);
        if (several)
            gf_pci_add(p->machine, p->preload->options->machine, gpu->bdf);
    }
}

/* Returns the node with which the probe tries the policy. */
static unsigned probe_node(const struct gf_verdict *verdict)
{
    const int node = gf_set_empty(&verdict->policy_nodes) ? gf_set_next(&verdict->nodes, 0)
                                                          : gf_set_next(&verdict->policy_nodes, 0);
    return node < 0 ? 0 : (unsigned)node;
}

/*
 * Runs the probe on the calling thread, and restores the thread's mask and policy. No other thread
 * is used, because waiting for it could deadlock under the loader's lock.
 */
static void probe_here(unsigned node, const struct gf_cpus *cpus, struct gf_probe *ret)
{
    struct gf_cpus mask;
    struct gf_nodes nodes;
    int mode = GF_MPOL_DEFAULT;

    const bool masked = gf_tasks_get_mask(0, &mask) == 0;
    gf_mempolicy_read(&mode, &nodes);
    gf_probe_here(node, cpus, ret);
    if (ret->set_mempolicy == 0)
        gf_mempolicy_set(mode, &nodes);
    if (masked)
        gf_tasks_set_mask(0, &mask);
}

/*
 * Decides on the assumption that the kernel refuses no call. If the verdict binds threads or sets a
 * policy, tries the calls and decides again.
 */
static void decide_verdict(struct gf_decision *ret)
{
    struct gf_process *p = &gf_process;
    struct gf_verdict *verdict = &ret->verdict;
    struct gf_options effective = *p->preload->options;

    /* With GPUFEED=observe, the report contains the verdict of GPUFEED=on. */
    effective.mode = gf_mode_on;
    ret->facts = p->facts;
    gf_thread_binding_read_own(&ret->facts);
    gf_verdict_decide(p->machine, &ret->facts, NULL, &effective, ret->gpus, ret->gpu_count,
                      verdict);
    if (ret->observe || (verdict->bound == gf_bound_none && verdict->policy == GF_MPOL_DEFAULT))
        return;
    const bool wants_policy = verdict->policy != GF_MPOL_DEFAULT;
    const struct gf_cpus *cpus = verdict->bound == gf_bound_none ? &p->facts.start : &verdict->cpus;
    probe_here(probe_node(verdict), cpus, &ret->probe);
    ret->probed = true;
    ret->policy_error = wants_policy ? ret->probe.set_mempolicy : 0;
    gf_verdict_decide(p->machine, &ret->facts, &ret->probe, &effective, ret->gpus, ret->gpu_count,
                      verdict);
}

/* Returns why no verdict is possible; NULL if it is possible. */
static const char *unknown_reason(void)
{
    const struct gf_process *p = &gf_process;

    if (!p->machine)
        return "the machine could not be read";
    return p->preload->startup->known ? NULL : "the CPUs at the program's start are unknown";
}

/* Nothing is bound, but without a decision the process would have no report. */
static void leave_unbound(const char *why, struct gf_decision *ret)
{
    ret->facts = gf_process.facts;
    gf_fmt(ret->verdict.reason, sizeof(ret->verdict.reason), "%s", why);
    gf_fmt(ret->verdict.policy_reason, sizeof(ret->verdict.policy_reason), "%s", why);
}

static struct gf_placement *make_placement(const struct gf_decision *decision,
                                           const struct gf_placement *old)
{
    const struct gf_verdict *verdict = &decision->verdict;
    struct gf_placement *ret = calloc(1, sizeof(*ret));
    if (!ret)
        return NULL;
    ret->epoch = old ? old->epoch + 1 : 1;
    ret->before = old;
    ret->start = gf_process.facts.start;
    ret->submitters = verdict->bound == gf_bound_submitters;
    ret->given_up = old && old->given_up;
    ret->bound = !ret->given_up && verdict->bound != gf_bound_none && !gf_set_empty(&verdict->cpus);
    ret->cpus = ret->bound ? verdict->cpus : ret->start;
    ret->socket = gf_set_empty(&verdict->socket) ? ret->start : verdict->socket;
    ret->node = gf_set_count(&verdict->nodes) == 1 ? gf_set_next(&verdict->nodes, 0) : -1;
    if (!ret->given_up && (!decision->probed || decision->probe.set_mempolicy == 0)) {
        ret->policy = verdict->policy;
        ret->policy_nodes = verdict->policy_nodes;
    }
    return ret;
}

static void bind_threads(const struct gf_placement *old, const struct gf_placement *now,
                         struct gf_bind_result *ret)
{
    /*
     * The mask that an earlier decision set, or that this process inherited from a process that was
     * bound.
     */
    const struct gf_cpus *ours = old && old->bound   ? &old->cpus
                                 : gf_process.hinted ? &gf_process.hint.set
                                                     : NULL;
    const bool all = !now->submitters;
    if (ours)
        gf_thread_binding_move(ours, all ? &now->cpus : &now->start, true, ret);
    if (now->bound && all)
        gf_thread_binding_move(&now->start, &now->cpus, true, ret);
}

static void bind_memory(const struct gf_placement *now)
{
    const struct gf_heap_ops *heap = gf_process.preload->heap;
    if (heap->set_node)
        heap->set_node(now->policy, &now->policy_nodes);
    if (heap->set_cpus && now->bound)
        heap->set_cpus(gf_set_count(&now->cpus));
}

static void publish_hint(const struct gf_placement *old, const struct gf_placement *now)
{
    if (now->bound)
        gf_placement_publish(now);
    else if (gf_process.hinted || (old && old->bound))
        gf_hint_publish(NULL);
}

static void carry_out(const struct gf_placement *old, struct gf_placement *now,
                      struct gf_decision *decision)
{
    /*
     * The placement is published before threads are bound, so that a thread that starts during the
     * binding finds it.
     */
    gf_store_release(&gf_process.placement, now);
    bind_threads(old, now, &decision->bind);
    gf_thread_binding_settle(true);
    bind_memory(now);
    publish_hint(old, now);
    decision->cpus = now->cpus;
    decision->policy = now->policy;
    gf_locality_threads(&now->cpus, gf_process.preload->thread_class, &decision->threads);
    decision->bound = now->bound && decision->threads.on_target > 0;
    if (now->given_up)
        gf_fmt(decision->verdict.reason, sizeof(decision->verdict.reason),
               "the program's threads starved on these CPUs earlier");
    else if (now->bound && !decision->bound && !now->submitters && !decision->facts.all_own)
        gf_fmt(decision->verdict.reason, sizeof(decision->verdict.reason),
               "no thread had the new mask after the binding");
}

/*
 * Tells the preload library which GPU the log's lines about stalls contain; none if several GPUs
 * were chosen.
 */
static void publish_gpu(const struct gf_decision *decision)
{
    struct gf_stall_gpu gpu = {.device = decision->gpus[0].device};

    memcpy(gpu.pci, decision->gpus[0].bdf, sizeof(gpu.pci));
    gf_process.preload->gpu_known(decision->gpu_count == 1 ? &gpu : NULL);
}

static void publish_decision(struct gf_decision *decision, const struct gf_decision *before)
{
    char from[256], to[256], gpus[32];

    /*
     * decided_ns is stored before the decision, because the library's thread reads it as soon as it
     * sees the decision.
     */
    if (!before)
        gf_process.decided_ns = gf_now_ns();
    gf_store_release(&gf_process.decision, decision);
    publish_gpu(decision);
    gf_events_announce_decision(decision);
    explain_place(decision, &gf_process.facts);
    if (before && !gf_set_equal(&before->cpus, &decision->cpus)) {
        if (decision->gpu_count == 1)
            gf_fmt(gpus, sizeof(gpus), "GPU %d", decision->gpus[0].device);
        else
            gf_fmt(gpus, sizeof(gpus), "%zu GPUs", decision->gpu_count);
        gf_events_announce(gf_report_rebound, "%s %s: threads moved from CPUs %s to %s", gpus,
                           decision->choice, gf_set_format(&before->cpus, from, sizeof(from)),
                           gf_set_format(&decision->cpus, to, sizeof(to)));
    }
    sem_post(&gf_process.wake);
}

/*
 * Decides for the devices that are chosen now, carries out the decision and publishes it. Only
 * gf_requests_serve may call this function, so that one thread calls it at a time. This may be any
 * thread, possibly in a hook under the loader's lock.
 */
static void gf_decide(void)
{
    struct gf_process *p = &gf_process;
    const struct gf_placement *old = gf_process_placement();
    const struct gf_decision *before = gf_process_decision();
    const char *const unknown = unknown_reason();
    struct gf_decision *decision = calloc(1, sizeof(*decision));

    if (!decision)
        return;
    decision->observe = p->preload->options->mode == gf_mode_observe;
    decision->choice = gf_choice_why_text(p->choice.why);
    decision->settled = p->choice.settled;
    decision->rebindings = before ? before->rebindings + 1 : 0;
    decision->cpus = p->facts.start;
    read_gpus(decision);
    if (unknown)
        leave_unbound(unknown, decision);
    else
        decide_verdict(decision);
    if (!decision->observe && !unknown) {
        struct gf_placement *now = make_placement(decision, old);
        if (!now) {
            free(decision);
            return;
        }
        carry_out(old, now, decision);
    } else {
        gf_locality_threads(&decision->cpus, gf_process.preload->thread_class, &decision->threads);
    }
    publish_decision(decision, before);
}

static _Atomic unsigned pending; /* bits of the requests that are not served yet */
static _Atomic bool serving;

static void serve_bits(unsigned bits)
{
    struct gf_choice *choice = &gf_process.choice;

    if (bits & (gf_request_decide | gf_request_settle)) {
        const bool changed = gf_choice_decide(choice, bits & gf_request_settle);
        if (choice->chosen && (changed || !gf_process_decision()))
            gf_decide();
    }
    if (bits & gf_request_rescan)
        gf_thread_binding_rescan();
    if (bits & (gf_request_socket | gf_request_start))
        gf_thread_binding_widen(bits & gf_request_start);
}

/*
 * A Dekker-style handshake. A thread with a request sets its bits, then tries to become the server.
 * The server stops serving, then reads the bits again. All these accesses are sequentially
 * consistent. So either the server sees the bits, or the thread with the request becomes the
 * server.
 */
void gf_requests_serve(unsigned bits)
{
    gf_keep_errno();

    atomic_fetch_or_explicit(&pending, bits, memory_order_seq_cst);
    while (gf_load_seq_cst(&pending)) {
        if (gf_process_dead() || gf_exchange_seq_cst(&serving, true))
            break;
        const unsigned now = gf_exchange_seq_cst(&pending, 0);
        const uint64_t start_ns = gf_now_ns();
        serve_bits(now);
        if (now & gf_request_decide)
            gf_add_relaxed(&gf_process.counts.decide_us, (gf_now_ns() - start_ns) / 1000);
        gf_store_seq_cst(&serving, false);
    }
}
