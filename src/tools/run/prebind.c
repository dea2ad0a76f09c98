/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/program_start.h"

#include "host/hint.h"
#include "host/locate.h"
#include "host/machine_load.h"
#include "host/mempolicy.h"
#include "host/tasks.h"
#include "tools/common/cli.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static void add_gpu(const struct gf_visible_gpu *visible, int device, struct gf_prediction *ret)
{
    struct gf_gpu *gpu = &ret->gpus[ret->count++];

    *gpu = (struct gf_gpu){.device = device, .attr_node = -1, .nvml_node = -1};
    memcpy(gpu->bdf, visible->bdf, sizeof(gpu->bdf));
    memcpy(gpu->name, visible->model, sizeof(gpu->name));
}

/* Whether the nodes of all GPUs of the prediction are known, and are the same. */
static bool have_same_nodes(const struct gf_machine *machine, const struct gf_prediction *ret)
{
    struct gf_nodes first, other;
    const char *source;

    if (!gf_locate(machine, &ret->gpus[0], &first, &source))
        return false;
    for (size_t i = 1; i < ret->count; i++)
        if (!gf_locate(machine, &ret->gpus[i], &other, &source) || !gf_set_equal(&first, &other))
            return false;
    return true;
}

/*
 * The prediction is certain in three cases: one GPU is visible; the launcher has one rank on this
 * host for each visible GPU, and the GPUs' order is known; or all visible GPUs are near the same
 * nodes. The last case is not enough for gf_bind_exclusive, in which ranks divide a node's cores.
 */
static void gf_predict_gpu(const struct gf_machine *machine, const struct gf_visible_gpus *visible,
                           const struct gf_rank *rank, enum gf_bind bind, struct gf_prediction *ret)
{
    ret->count = 0;
    if (!visible->count) {
        snprintf(ret->why, sizeof(ret->why), "no GPU is visible");
        return;
    }
    if (visible->count == 1) {
        add_gpu(&visible->gpus[0], visible->ordered ? 0 : -1, ret);
        snprintf(ret->why, sizeof(ret->why), "the only visible GPU");
        return;
    }
    if (rank->local_rank >= 0 && rank->local_size == (int)visible->count && visible->ordered &&
        rank->local_rank < rank->local_size) {
        add_gpu(&visible->gpus[rank->local_rank], rank->local_rank, ret);
        snprintf(ret->why, sizeof(ret->why), "local rank %d of %d from %s", rank->local_rank,
                 rank->local_size, rank->source);
        return;
    }
    for (size_t i = 0; i < visible->count; i++)
        add_gpu(&visible->gpus[i], visible->ordered ? (int)i : -1, ret);
    if (bind != gf_bind_exclusive && have_same_nodes(machine, ret)) {
        snprintf(ret->why, sizeof(ret->why), "all %zu visible GPUs are near the same node",
                 visible->count);
        return;
    }
    ret->count = 0;
    snprintf(ret->why, sizeof(ret->why),
             "%zu GPUs are visible%s%s; the library binds when the program uses one",
             visible->count, visible->doubt ? ", and " : "", visible->doubt ? visible->doubt : "");
}

/*
 * Gathers the facts about the program's start. If an outer run set the present mask or policy, the
 * facts contain the mask or policy from before that run, otherwise the present one.
 * *ret_outer_policy is true if the outer run set the present policy.
 */
static void gather_facts(const struct gf_cpus *present, struct gf_facts *ret,
                         bool *ret_outer_policy)
{
    static struct gf_hint hint;
    /* An outer `gpufeed run` or the library has put the hint there, if its mask is still set. */
    const bool has_outer = gf_hint_read(environ, &hint) == 0 && gf_set_equal(&hint.set, present);

    gf_facts_gather("", environ, has_outer ? &hint.was : present, ret);
    /* The cgroup may now permit fewer CPUs than when the hint was written. */
    if (has_outer && gf_set_meet(&ret->start, &ret->cpuset))
        gf_set_and(&ret->start, &ret->start, &ret->cpuset);
    *ret_outer_policy =
        has_outer && hint.policy != GF_MPOL_DEFAULT && gf_mempolicy_is(hint.policy, &hint.nodes);
    if (*ret_outer_policy) {
        ret->start_policy = GF_MPOL_DEFAULT;
        ret->start_policy_nodes = (struct gf_nodes){0};
    }
}

/*
 * Decides twice: the first verdict assumes that the kernel permits all calls. The probe then tries
 * these calls with the verdict's node and CPUs. The second verdict uses the probe's results.
 */
static void decide_binding(const struct gf_machine *machine, struct gf_facts *facts,
                           const struct gf_options *options, struct gf_prebind *ret)
{
    const struct gf_prediction *prediction = &ret->prediction;
    struct gf_probe probe;

    gf_verdict_decide(machine, facts, NULL, options, prediction->gpus, prediction->count,
                      &ret->verdict);
    const int node = gf_set_next(&ret->verdict.policy_nodes, 0);
    if (ret->verdict.bound == gf_bound_none && node < 0)
        return;
    gf_probe_run(node < 0 ? 0 : (unsigned)node, &ret->verdict.cpus, &probe);
    gf_verdict_decide(machine, facts, &probe, options, prediction->gpus, prediction->count,
                      &ret->verdict);
}

static void bind_self(const struct gf_cpus *present, const struct gf_cpus *was, bool outer_policy,
                      struct gf_prebind *ret)
{
    const struct gf_cpus *wanted = ret->verdict.bound == gf_bound_none ? was : &ret->verdict.cpus;
    struct gf_cpus result;
    int policy = ret->verdict.policy;

    int error = gf_tasks_set_mask(0, wanted);
    if (error) {
        snprintf(ret->note, sizeof(ret->note), "sched_setaffinity: %s", strerror(-error));
        return;
    }
    if (gf_tasks_get_mask(0, &result) || !gf_set_equal(&result, wanted)) {
        snprintf(ret->note, sizeof(ret->note), "the kernel did not keep the mask");
        gf_tasks_set_mask(0, present);
        return;
    }
    /* Without a policy, the user's stays in force, and that of an outer run is reset. */
    if (policy != GF_MPOL_DEFAULT || outer_policy)
        error = gf_mempolicy_set(policy, &ret->verdict.policy_nodes);
    if (error) {
        if (policy != GF_MPOL_DEFAULT)
            snprintf(ret->note, sizeof(ret->note), "set_mempolicy: %s", strerror(-error));
        policy = GF_MPOL_DEFAULT;
    }
    struct gf_hint hint = {.pid = getpid(), .was = *was, .set = *wanted, .policy = policy};
    if (policy != GF_MPOL_DEFAULT)
        hint.nodes = ret->verdict.policy_nodes;
    gf_hint_publish(&hint);
}

static bool has_effect(const struct gf_verdict *verdict)
{
    return verdict->bound == gf_bound_none ? verdict->policy != GF_MPOL_DEFAULT
                                           : verdict->bound != gf_bound_submitters;
}

void gf_prebind_apply(const struct gf_options *options, bool dry, struct gf_prebind *ret)
{
    static struct gf_facts facts;
    static struct gf_visible_gpus visible;
    struct gf_prediction *prediction = &ret->prediction;
    const char *root = options->machine;
    struct gf_machine *machine;
    struct gf_cpus present;
    bool outer_policy;

    memset(ret, 0, sizeof(*ret));
    if (options->mode != gf_mode_on) {
        snprintf(prediction->why, sizeof(prediction->why), "GPUFEED is not on");
        return;
    }
    int error = gf_tasks_get_mask(0, &present);
    if (error) {
        snprintf(prediction->why, sizeof(prediction->why), "sched_getaffinity: %s",
                 strerror(-error));
        return;
    }
    error = gf_machine_load(root, &machine);
    if (error) {
        snprintf(prediction->why, sizeof(prediction->why), "%s",
                 gf_cli_machine_reason(root, error));
        return;
    }
    gather_facts(&present, &facts, &outer_policy);
    gf_visible_gpus_read(machine, root, &visible);
    gf_visible_gpus_choose(&visible);
    gf_predict_gpu(machine, &visible, &facts.rank, options->bind, prediction);
    if (prediction->count) {
        decide_binding(machine, &facts, options, ret);
        ret->known = true;
        if (!dry && has_effect(&ret->verdict))
            bind_self(&present, &facts.start, outer_policy, ret);
    }
    gf_machine_free(machine);
}
