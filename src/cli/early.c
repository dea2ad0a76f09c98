/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/early.h"

#include "config/names.h"
#include "host/policy.h"
#include "place/hint.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int create_thread(pthread_t *ret, void *(*run)(void *), void *arg)
{
    return pthread_create(ret, NULL, run, arg);
}

static bool mask_get(struct gf_cpus *ret)
{
    memset(ret, 0, sizeof(*ret));
    return sched_getaffinity(0, sizeof(*ret), (cpu_set_t *)ret) == 0;
}

static bool mask_set(const struct gf_cpus *cpus)
{
    return sched_setaffinity(0, sizeof(*cpus), (const cpu_set_t *)cpus) == 0;
}

/* Whether a process of ours has set the present mask, and said what was there before. */
static bool is_inherited(const struct gf_env *env, const struct gf_cpus *present,
                         struct gf_hint *ret)
{
    return gf_hint_read(env->entries, ret) == 0 && gf_set_equal(&ret->set, present);
}

/*
 * What counts as the program's start: the present mask and policy, unless they are an outer run's.
 * *ret_policy says whether the policy is.
 */
static void gather(const struct gf_env *env, const struct gf_cpus *present, struct gf_facts *ret,
                   bool *ret_policy)
{
    static struct gf_hint hint;
    const bool inherited = is_inherited(env, present, &hint);

    gf_facts_gather("", env->entries, inherited ? &hint.was : present, ret);
    /* What was allowed then may not be allowed now. */
    if (inherited && gf_set_meet(&ret->start, &ret->cpuset))
        gf_set_and(&ret->start, &ret->start, &ret->cpuset);
    *ret_policy = inherited && hint.policy != GF_MPOL_DEFAULT &&
                  gf_policy_is(hint.policy, &hint.nodes);
    if (*ret_policy)
        ret->start_policy = GF_MPOL_DEFAULT;
}

/* The node to try policies on: the verdict's own, in a first round that assumes all is permitted. */
static void decide(const struct gf_machine *machine, struct gf_facts *facts,
                   const struct gf_options *options, struct gf_early *ret)
{
    const struct gf_certain *certain = &ret->certain;
    struct gf_probe probe;

    gf_verdict_decide(machine, facts, NULL, options, certain->gpus, certain->count, &ret->verdict);
    const int node = gf_set_next(&ret->verdict.policy_nodes, 0);
    if (ret->verdict.bound == gf_bound_none && node < 0)
        return;
    gf_probe_run(create_thread, node < 0 ? 0 : (unsigned)node, &ret->verdict.cpus, &probe);
    gf_verdict_decide(machine, facts, &probe, options, certain->gpus, certain->count,
                      &ret->verdict);
}

static void publish(struct gf_env *env, const struct gf_cpus *was, const struct gf_cpus *set,
                    int policy, const struct gf_nodes *nodes)
{
    struct gf_hint hint = {.pid = getpid(), .was = *was, .set = *set, .policy = policy};
    char *entry = malloc(GF_HINT_MAX);

    if (policy != GF_MPOL_DEFAULT)
        hint.nodes = *nodes;
    if (entry && gf_hint_format(&hint, entry, GF_HINT_MAX) > 0)
        gf_env_set(env, GF_NAME_BOUND, entry + sizeof(GF_NAME_BOUND));
    free(entry);
}

/* A policy that is not an outer run's is the user's, and stays where the verdict has none. */
static int set_policy(const struct gf_verdict *verdict, bool outer)
{
    if (verdict->policy == GF_MPOL_DEFAULT && !outer)
        return 0;
    return gf_policy_set(verdict->policy, &verdict->policy_nodes);
}

static void carry_out(struct gf_env *env, const struct gf_cpus *present, const struct gf_cpus *was,
                      bool outer_policy, struct gf_early *ret)
{
    const struct gf_cpus *wanted = ret->verdict.bound == gf_bound_none ? was : &ret->verdict.cpus;
    struct gf_cpus seen;
    int policy = ret->verdict.policy;

    if (!mask_set(wanted)) {
        snprintf(ret->note, sizeof(ret->note), "sched_setaffinity: %s", strerror(errno));
        return;
    }
    if (!mask_get(&seen) || !gf_set_equal(&seen, wanted)) {
        snprintf(ret->note, sizeof(ret->note), "the kernel did not keep the mask");
        mask_set(present);
        return;
    }
    const int error = set_policy(&ret->verdict, outer_policy);
    if (error) {
        if (policy != GF_MPOL_DEFAULT)
            snprintf(ret->note, sizeof(ret->note), "set_mempolicy: %s", strerror(-error));
        policy = GF_MPOL_DEFAULT;
    }
    publish(env, was, wanted, policy, &ret->verdict.policy_nodes);
    ret->bound = true;
}

void gf_early_bind(struct gf_env *env, const struct gf_options *options, bool dry,
                   struct gf_early *ret)
{
    static struct gf_facts facts;
    static struct gf_visible visible;
    const char *root = options->machine;
    struct gf_machine *machine;
    struct gf_cpus present;
    bool outer_policy;

    memset(ret, 0, sizeof(*ret));
    if (options->mode != gf_mode_on) {
        snprintf(ret->certain.why, sizeof(ret->certain.why), "GPUFEED is not on");
        return;
    }
    if (!mask_get(&present) || gf_machine_load(root, &machine)) {
        snprintf(ret->certain.why, sizeof(ret->certain.why), "the machine could not be read");
        return;
    }
    gather(env, &present, &facts, &outer_policy);
    gf_visible_read(machine, root, &visible);
    gf_visible_choose(&visible, gf_env_get(env, "CUDA_VISIBLE_DEVICES"),
                      gf_env_get(env, "CUDA_DEVICE_ORDER"));
    gf_certain_find(machine, &visible, &facts.rank, options->bind, &ret->certain);
    if (ret->certain.count) {
        decide(machine, &facts, options, ret);
        ret->known = true;
        const bool anything = ret->verdict.bound == gf_bound_none
                                  ? ret->verdict.policy != GF_MPOL_DEFAULT
                                  : ret->verdict.bound != gf_bound_submitters;
        if (!dry && anything)
            carry_out(env, &present, &facts.start, outer_policy, ret);
    }
    gf_machine_free(machine);
}
