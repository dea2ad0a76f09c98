/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/state.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct gf_options *options(void)
{
    return gf_process.door->options;
}

static void read_gpus(struct gf_decision *ret)
{
    struct gf_process *p = &gf_process;
    /* On one node nothing is bound, so nobody needs to be asked. */
    const bool several = p->machine && p->machine->node_count > 1;

    for (int device = 0; device < GF_CHOICE_DEVICES; device++) {
        if (!(p->choice.chosen >> device & 1) || ret->gpu_count == GF_DECISION_GPUS)
            continue;
        struct gf_gpu *gpu = &ret->gpus[ret->gpu_count++];
        gf_gpu_read(device, several, gpu);
        if (several)
            gf_machine_add(p->machine, options()->machine, gpu->bdf);
    }
}

/* The node that the probe tries the policy with. */
static unsigned probe_node(const struct gf_verdict *verdict)
{
    const int node = gf_set_empty(&verdict->policy_nodes) ? gf_set_next(&verdict->nodes, 0)
                                                          : gf_set_next(&verdict->policy_nodes, 0);
    return node < 0 ? 0 : (unsigned)node;
}

/* What gf_probe_run takes for creating its scratch thread: that work is done here and now. */
static int run_here(pthread_t *ret, void *(*work)(void *), void *arg)
{
    *ret = pthread_self();
    work(arg);
    return EAGAIN; /* there is no thread to wait for */
}

/*
 * On the calling thread, and what it changed is put back: a thread of its own would have to be
 * waited for, perhaps under the loader's lock.
 */
static void probe(unsigned node, const struct gf_cpus *cpus, struct gf_probe *ret)
{
    const unsigned long bits = GF_NODES_MAX + 1;
    struct gf_cpus mask = {0};
    struct gf_nodes nodes = {0};
    int mode = MPOL_DEFAULT;

    const bool masked = syscall(SYS_sched_getaffinity, 0, sizeof(mask), &mask) > 0;
    syscall(SYS_get_mempolicy, &mode, nodes.word, bits, NULL, 0);
    gf_probe_run(run_here, node, cpus, ret);
    if (ret->set_mempolicy == 0)
        syscall(SYS_set_mempolicy, mode, mode == MPOL_DEFAULT ? NULL : nodes.word, bits);
    if (masked)
        syscall(SYS_sched_setaffinity, 0, sizeof(mask), &mask);
}

/* First as if everything were permitted; if that would do anything, what is permitted is tried. */
static void reach_verdict(struct gf_decision *ret)
{
    struct gf_process *p = &gf_process;
    struct gf_verdict *verdict = &ret->verdict;
    struct gf_options wishes = *options();

    wishes.mode = gf_mode_on; /* observing, too, says what would be done */
    gf_verdict_decide(p->machine, &p->facts, NULL, &wishes, ret->gpus, ret->gpu_count, verdict);
    if (ret->observe || (verdict->bound == gf_bound_none && verdict->policy == MPOL_DEFAULT))
        return;
    const bool wants_policy = verdict->policy != MPOL_DEFAULT;
    const struct gf_cpus *cpus =
        verdict->bound == gf_bound_none ? &p->facts.start : &verdict->cpus;
    probe(probe_node(verdict), cpus, &ret->probe);
    ret->probed = true;
    ret->policy_error = wants_policy ? ret->probe.set_mempolicy : 0;
    gf_verdict_decide(p->machine, &p->facts, &ret->probe, &wishes, ret->gpus, ret->gpu_count,
                      verdict);
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
    /* What an earlier decision, or the process that started this one, has set. */
    const struct gf_cpus *ours = old && old->bound    ? &old->cpus
                                 : gf_process.hinted ? &gf_process.hint.set
                                                     : NULL;
    const bool all = !now->submitters;
    if (ours)
        gf_bind_move(ours, all ? &now->cpus : &now->start, true, ret);
    if (now->bound && all)
        gf_bind_move(&now->start, &now->cpus, true, ret);
}

static void bind_memory(const struct gf_placement *now)
{
    const struct gf_heap_ops *heap = gf_process.door->heap;
    if (heap->set_node)
        heap->set_node(now->policy, &now->policy_nodes);
    if (heap->set_cpus && now->bound)
        heap->set_cpus(gf_set_count(&now->cpus));
}

static void tell_children(const struct gf_placement *old, const struct gf_placement *now)
{
    struct gf_hint hint = {.pid = gf_process.pid, .was = now->start, .set = now->cpus,
                           .policy = now->policy, .nodes = now->policy_nodes};
    if (now->policy == MPOL_DEFAULT)
        memset(&hint.nodes, 0, sizeof(hint.nodes));
    if (now->bound && !now->submitters)
        gf_hint_publish(&hint);
    else if (gf_process.hinted || (old && old->bound))
        gf_hint_publish(NULL);
}

static void carry_out(const struct gf_placement *old, struct gf_placement *now,
                      struct gf_decision *decision)
{
    /* Published first: a thread that is born meanwhile finds it. */
    __atomic_store_n(&gf_process.placement, now, __ATOMIC_RELEASE);
    bind_threads(old, now, &decision->bind);
    gf_thread_settle(true);
    bind_memory(now);
    tell_children(old, now);
    decision->cpus = now->cpus;
    decision->policy = now->policy;
    gf_locality_threads(&now->cpus, gf_thread_owner, &decision->threads);
    decision->bound = now->bound && decision->threads.on_target > 0;
    if (now->given_up)
        memcpy(decision->verdict.reason, "it starved the program before",
               sizeof("it starved the program before"));
    else if (now->bound && !decision->bound && !now->submitters)
        memcpy(decision->verdict.reason, "the masks did not read back as set",
               sizeof("the masks did not read back as set"));
}

/* For the log's stalls: it says the one GPU, or none. */
static void tell_gpu(const struct gf_decision *decision)
{
    struct gf_stall_gpu gpu = {.device = decision->gpus[0].device};

    memcpy(gpu.pci, decision->gpus[0].bdf, sizeof(gpu.pci));
    gf_process.door->gpu_known(decision->gpu_count == 1 ? &gpu : NULL);
}

static void publish(struct gf_decision *decision, const struct gf_decision *before)
{
    char from[256], to[256];

    __atomic_store_n(&gf_process.decision, decision, __ATOMIC_RELEASE);
    if (!before)
        gf_process.decided_ns = gf_now_ns();
    tell_gpu(decision);
    gf_output_decision(decision);
    if (before && !gf_set_equal(&before->cpus, &decision->cpus))
        gf_output_event(gf_report_rebound, "GPU %d %s: moved from CPUs %s to %s",
                        decision->gpus[0].device, decision->choice,
                        gf_set_format(&before->cpus, from, sizeof(from)),
                        gf_set_format(&decision->cpus, to, sizeof(to)));
    sem_post(&gf_process.wake);
}

void gf_decide(void)
{
    struct gf_process *p = &gf_process;
    const struct gf_placement *old = gf_placement();
    const struct gf_decision *before = gf_decision();
    struct gf_decision *decision = calloc(1, sizeof(*decision));

    if (!decision || !p->machine || !p->door->birth->known) {
        free(decision);
        return;
    }
    decision->observe = options()->mode == gf_mode_observe;
    decision->choice = gf_choice_why_text(p->choice.why);
    decision->settled = p->choice.settled;
    decision->rebindings = before ? before->rebindings + 1 : 0;
    decision->cpus = p->facts.start;
    read_gpus(decision);
    reach_verdict(decision);
    if (!decision->observe) {
        struct gf_placement *now = make_placement(decision, old);
        if (!now) {
            free(decision);
            return;
        }
        carry_out(old, now, decision);
    } else {
        gf_locality_threads(&decision->cpus, gf_thread_owner, &decision->threads);
    }
    publish(decision, before);
}
