/* SPDX-License-Identifier: Apache-2.0 */
#include "host/verdict.h"

#include "base/fmt.h"
#include "host/locate.h"
#include "host/mempolicy.h"

#define LIST_MAX 64
/*
 * Threads that submit work are bound to at least this many CPUs. On fewer CPUs, they would wait for
 * the driver's threads.
 */
#define SUBMITTERS_LEAST 3
#define SAY(ret, ...) gf_fmt((ret)->reason, sizeof((ret)->reason), __VA_ARGS__)
#define ADVISE(ret, ...) gf_fmt((ret)->remedy, sizeof((ret)->remedy), __VA_ARGS__)

/* The facts of one decision, and intermediate results that several rules need. */
struct input {
    const struct gf_machine *machine;
    const struct gf_facts *facts;
    const struct gf_probe *probe;
    const struct gf_options *options;
    const struct gf_gpu *gpus;
    size_t gpu_count;
    struct gf_cpus allowed; /* CPUs that the process could use with the widest mask */
    struct gf_cpus local;   /* all CPUs of the GPUs' nodes */
    /*
     * The CPUs of `local` that are in the start mask. With GPUFEED_BIND=force: those that are in
     * `allowed`.
     */
    struct gf_cpus usable;
    char nodes[LIST_MAX]; /* the GPUs' nodes, as text */
    bool user_bound;
    bool too_few; /* true if `usable` has too few CPUs to bind to */
};

const char *gf_bound_name(enum gf_bound bound)
{
    static const char *const names[] = {
        [gf_bound_none] = "none",           [gf_bound_node] = "node",
        [gf_bound_nodes] = "nodes",         [gf_bound_socket] = "socket",
        [gf_bound_exclusive] = "exclusive", [gf_bound_submitters] = "submitters",
    };
    return names[bound];
}

static bool is_forced(const struct input *d)
{
    return d->options->bind == gf_bind_force;
}

static bool find_nodes(struct input *d, struct gf_verdict *ret)
{
    for (size_t i = 0; i < d->gpu_count; i++) {
        struct gf_nodes nodes;
        const char *source;
        if (!gf_locate(d->machine, &d->gpus[i], &nodes, &source)) {
            SAY(ret,
                "the node of GPU %s is unknown: neither /sys nor NVML nor the driver reports "
                "it",
                d->gpus[i].bdf);
            ret->nodes = (struct gf_nodes){0};
            ret->node_source = NULL;
            return false;
        }
        gf_set_or(&ret->nodes, &ret->nodes, &nodes);
        ret->node_source = source;
    }
    gf_locate_cpus(d->machine, &ret->nodes, &d->local);
    const struct gf_cpus *among = is_forced(d) ? &d->allowed : &d->facts->start;
    gf_set_and(&d->usable, &d->local, among);
    gf_set_format(&ret->nodes, d->nodes, sizeof(d->nodes));
    gf_locate_socket(d->machine, &ret->nodes, &ret->socket);
    gf_set_and(&ret->socket, &ret->socket, among);
    return true;
}

static const char *node_word(const struct gf_verdict *v)
{
    return gf_set_count(&v->nodes) > 1 ? "nodes" : "node";
}

/*
 * Writes the CPUs as a list. Returns false if the list was truncated. It is long if the numbers of
 * CPUs alternate between nodes.
 */
static bool format_whole(const struct gf_cpus *cpus, char ret[LIST_MAX])
{
    gf_set_format(cpus, ret, LIST_MAX);
    return !strstr(ret, "...");
}

/* Sets the remedy to a command that starts the program on the CPUs of the GPU's node. */
static void advise_start(const struct input *d, struct gf_verdict *ret)
{
    struct gf_cpus better;
    char list[LIST_MAX];

    gf_set_and(&better, &d->local, &d->allowed);
    const bool whole = format_whole(gf_set_empty(&better) ? &d->local : &better, list);
    if (d->facts->rank.source && strcmp(d->facts->rank.source, "Slurm") == 0)
        ADVISE(ret, "srun --gpu-bind=single:1, or --cpu-bind=none and GPUFEED_BIND=auto");
    else if (whole)
        ADVISE(ret, "taskset -c %s COMMAND, or GPUFEED_BIND=force", list);
    else
        ADVISE(ret, "numactl --cpunodebind=%s COMMAND, or GPUFEED_BIND=force", d->nodes);
}

static void say_user_bound(const struct input *d, struct gf_verdict *ret)
{
    char mask[LIST_MAX];

    gf_set_format(&d->facts->start, mask, sizeof(mask));
    if (gf_set_within(&d->facts->start, &d->local)) {
        SAY(ret,
            "the program was started on CPUs %s, which are on the GPU's %s %s; the mask is kept",
            mask, node_word(ret), d->nodes);
    } else if (gf_set_empty(&d->usable)) {
        SAY(ret,
            "the program was started on CPUs %s, none of which is on the GPU's %s %s; the mask is "
            "kept",
            mask, node_word(ret), d->nodes);
        advise_start(d, ret);
        ret->warn = true;
    } else {
        SAY(ret,
            "the program was started on CPUs %s (taskset, a scheduler or a launcher); the mask is "
            "kept",
            mask);
    }
}

/*
 * Whether the user's memory policy keeps pages away from all nodes of the GPUs. If so, CPUs near
 * the GPU would be far from the program's memory.
 */
static bool has_policy_elsewhere(const struct input *d, const struct gf_verdict *v)
{
    const bool asked = d->options->mem == gf_mem_preferred || d->options->mem == gf_mem_strict;

    return d->facts->start_policy > GF_MPOL_DEFAULT && !asked &&
           !gf_set_empty(&d->facts->start_policy_nodes) &&
           !gf_set_meet(&d->facts->start_policy_nodes, &v->nodes);
}

static void say_policy_elsewhere(const struct input *d, struct gf_verdict *ret)
{
    char policy[48];

    SAY(ret,
        "the program was started with memory policy %s, which excludes the GPU's %s %s; the masks "
        "are kept, so that CPUs and memory stay together",
        gf_mempolicy_format(d->facts->start_policy, &d->facts->start_policy_nodes, policy,
                            sizeof(policy)),
        node_word(ret), d->nodes);
    ADVISE(ret, "numactl --%s=%s COMMAND, or GPUFEED_BIND=force",
           d->facts->start_policy == GF_MPOL_BIND ? "membind" : "preferred", d->nodes);
    ret->warn = true;
}

/*
 * Applies those rules of the decision table (docs/placement.md) that keep every mask, whatever the
 * GPU's node is. Returns true if one of these rules applies.
 */
static bool is_off(const struct input *d, struct gf_verdict *ret)
{
    if (d->options->mode != gf_mode_on)
        SAY(ret, d->options->mode == gf_mode_observe ? "GPUFEED=observe" : "GPUFEED=off");
    else if (d->options->bind == gf_bind_off)
        SAY(ret, "GPUFEED_BIND=off");
    else if (d->gpu_count == 0)
        SAY(ret, "no GPU is known yet");
    else if (gf_set_empty(&d->facts->start))
        SAY(ret, "the mask that the program was started with is unknown");
    else
        return false;
    return true;
}

/*
 * Applies the rules by which a framework, a launcher or the user decides the CPUs. Returns true if
 * one of these rules applies.
 */
static bool are_cpus_decided(const struct input *d, struct gf_verdict *ret)
{
    if (is_forced(d))
        return false;
    if (d->facts->binder_source) {
        SAY(ret, "%s binds the program's CPUs; the masks are kept", d->facts->binder_source);
        /* For example, Accelerate uses the node of another GPU if CUDA_VISIBLE_DEVICES is set. */
        if (d->user_bound && gf_set_empty(&d->usable)) {
            SAY(ret, "%s bound the program to CPUs away from the GPU's %s %s",
                d->facts->binder_source, node_word(ret), d->nodes);
            ADVISE(ret, "turn %s off, so that GPUFEED_BIND=auto binds", d->facts->binder_source);
            ret->warn = true;
        }
    } else if (d->facts->pinning_source) {
        SAY(ret, "%s pins threads; the masks are kept, and only memory is placed",
            d->facts->pinning_source);
    } else if (d->user_bound) {
        say_user_bound(d, ret);
    } else if (has_policy_elsewhere(d, ret)) {
        say_policy_elsewhere(d, ret);
    } else {
        return false;
    }
    return true;
}

/*
 * Whether the process may not use memory on any of the GPUs' nodes. Returns false with
 * GPUFEED_MACHINE, because the recorded machine may have nodes that this machine lacks.
 */
static bool memory_excluded(const struct input *d, const struct gf_verdict *v)
{
    struct gf_nodes host;

    gf_locate_host_nodes(d->machine, &host);
    gf_set_and(&host, &host, &v->nodes);
    return !*d->options->machine && !gf_set_empty(&host) && !gf_set_empty(&d->facts->mems) &&
           !gf_set_meet(&host, &d->facts->mems);
}

/*
 * Explains why the program may use no CPU of the GPU's node: a control group or isolcpus= excludes
 * all of them.
 */
static void say_no_cpu(const struct input *d, struct gf_verdict *ret)
{
    char list[LIST_MAX];

    if (!format_whole(&d->local, list))
        gf_fmt(list, sizeof(list), "LIST (as lscpu prints it for node %.24s)", d->nodes);
    ret->warn = true;
    if (gf_set_within(&d->local, &d->facts->isolated)) {
        SAY(ret,
            "isolcpus= isolates all CPUs of the GPU's %s %s, and the program was started on others",
            node_word(ret), d->nodes);
        ADVISE(ret, "taskset -c %s COMMAND; or boot without isolcpus= for these CPUs", list);
        return;
    }
    SAY(ret, "this container or job may not use any CPU of the GPU's %s %s", node_word(ret),
        d->nodes);
    ADVISE(ret,
           "docker run --cpuset-cpus %s; Kubernetes: topology policy restricted; "
           "Slurm: --gpu-bind=single:1",
           list);
}

/*
 * Applies the rules for cases in which binding is impossible or useless. Returns true if one of
 * these rules applies.
 */
static bool is_impossible(const struct input *d, struct gf_verdict *ret)
{
    if (gf_set_empty(&d->usable)) {
        say_no_cpu(d, ret);
    } else if (memory_excluded(d, ret)) {
        SAY(ret, "this container or job may not use any memory of the GPU's %s %s", node_word(ret),
            d->nodes);
        ADVISE(ret, "docker run --cpuset-mems %s; Kubernetes: memory manager Static", d->nodes);
        ret->warn = true;
    } else if (gf_set_within(&d->facts->start, &d->usable)) {
        SAY(ret, "all CPUs that the program may use are on the GPU's %s %s already", node_word(ret),
            d->nodes);
    } else if (d->probe && d->probe->set_affinity && d->probe->set_affinity != GF_UNTRIED) {
        SAY(ret, "the kernel refused sched_setaffinity (%s)",
            strerrorname_np(d->probe->set_affinity));
        ret->warn = true;
    } else {
        return false;
    }
    return true;
}

static void bind_to(enum gf_bound bound, const struct gf_cpus *cpus, struct gf_verdict *ret)
{
    ret->bound = bound;
    ret->cpus = *cpus;
}

static bool bind_exclusive(const struct input *d, struct gf_verdict *ret)
{
    struct gf_cpus all = {0};

    for (size_t i = 0; i < d->gpu_count; i++) {
        struct gf_nodes nodes;
        struct gf_cpus among, share;
        const char *source;
        gf_locate(d->machine, &d->gpus[i], &nodes, &source);
        gf_locate_cpus(d->machine, &nodes, &among);
        gf_set_and(&among, &among, &d->usable);
        const int error = gf_ranks_share(d->machine, &d->facts->rank, &d->gpus[i],
                                         (unsigned)gf_set_next(&nodes, 0), &among, &share);
        if (error) {
            SAY(ret,
                error == -ERANGE ? "GPUFEED_BIND=exclusive: node %s has fewer usable cores than "
                                   "GPUs; its cores are not divided"
                                 : "GPUFEED_BIND=exclusive: neither /sys nor the launcher "
                                   "shows which GPUs share node %s; its cores are not "
                                   "divided",
                d->nodes);
            ret->warn = true;
            return false;
        }
        gf_set_or(&all, &all, &share);
    }
    bind_to(gf_bound_exclusive, &all, ret);
    SAY(ret, "whole cores of %s %s, divided among all of its GPUs in PCI order", node_word(ret),
        d->nodes);
    return true;
}

static void bind_socket(const struct input *d, struct gf_verdict *ret)
{
    if (gf_set_within(&d->facts->start, &ret->socket)) {
        SAY(ret, "all CPUs that the program may use are on the GPU's socket already");
        return;
    }
    bind_to(gf_bound_socket, &ret->socket, ret);
    SAY(ret, "the socket of the GPU's %s %s", node_word(ret), d->nodes);
}

/*
 * Decides if the node has too few CPUs. Binds to the socket if it has enough CPUs, and if the start
 * mask has CPUs outside the socket. Otherwise binds only the threads that submit work, or nothing.
 */
static void bind_small(struct input *d, unsigned need, struct gf_verdict *ret)
{
    const unsigned count = gf_set_count(&d->usable);
    const char *outcome;

    if (gf_set_count(&ret->socket) >= need && !gf_set_within(&d->facts->start, &ret->socket)) {
        bind_to(gf_bound_socket, &ret->socket, ret);
        outcome = "all threads are bound to its socket";
    } else if (count < SUBMITTERS_LEAST) {
        d->too_few = true;
        outcome = "nothing is bound";
    } else {
        bind_to(gf_bound_submitters, &d->usable, ret);
        outcome = "only the threads that submit work are bound";
    }
    SAY(ret, "only %u CPU%s of %s %s may be used, but %u are needed: %s", count,
        count == 1 ? "" : "s", node_word(ret), d->nodes, need, outcome);
}

static void bind_node(struct input *d, struct gf_verdict *ret)
{
    const unsigned need = gf_min_cpus(gf_set_count(&d->facts->start), d->facts->cpu_quota);

    /*
     * The number of CPUs matters only with GPUFEED_BIND=auto. With every setting, the guard widens
     * the mask if the program starves.
     */
    if (d->options->bind == gf_bind_auto && gf_set_count(&d->usable) < need) {
        bind_small(d, need, ret);
        return;
    }
    bind_to(gf_set_count(&ret->nodes) > 1 ? gf_bound_nodes : gf_bound_node, &d->usable, ret);
    if (!*ret->reason)
        SAY(ret, "the GPU's %s %s", node_word(ret), d->nodes);
}

static void add_quota(const struct input *d, struct gf_verdict *ret)
{
    const size_t length = strlen(ret->reason);
    const unsigned tenths = (unsigned)(d->facts->cpu_quota * 10 + 0.5);

    if (ret->bound != gf_bound_none && tenths > 0 && d->facts->cpu_quota < gf_set_count(&ret->cpus))
        gf_fmt(ret->reason + length, sizeof(ret->reason) - length,
               "; the CPU quota of %u.%u CPUs is smaller", tenths / 10, tenths % 10);
}

/*
 * Explains that the program itself has set the masks of all its threads, for example by pinning the
 * main thread before cuInit. Such masks are kept, even with GPUFEED_BIND=force. The binding still
 * applies to a thread that gets the start mask again, because a library may save, set and restore a
 * thread's mask.
 */
static void say_pinned_all(const struct input *d, struct gf_verdict *ret)
{
    char list[LIST_MAX];

    ret->warn = !gf_set_meet(&d->facts->own, &d->local);
    SAY(ret, "the program has set the masks of all its threads to CPUs %s, %s the GPU's %s %s",
        gf_set_format(&d->facts->own, list, sizeof(list)),
        ret->warn ? "none of which is on" : "which are kept; they include CPUs of", node_word(ret),
        d->nodes);
    if (ret->warn && format_whole(&d->local, list))
        ADVISE(ret, "let the program use CPUs %s, or leave its threads unpinned", list);
}

static void decide_cpus(struct input *d, struct gf_verdict *ret)
{
    /* The nodes are found first, because the report contains them even if nothing is bound. */
    const bool known = d->gpu_count > 0 && find_nodes(d, ret);
    if (is_off(d, ret))
        return;
    if (gf_locate_cpu_nodes(d->machine) <= 1) {
        SAY(ret, "single node: nothing to bind");
        return;
    }
    if (!known || are_cpus_decided(d, ret) || is_impossible(d, ret))
        return;
    if (d->options->bind == gf_bind_socket)
        bind_socket(d, ret);
    else if (d->options->bind != gf_bind_exclusive || !bind_exclusive(d, ret))
        bind_node(d, ret);
    add_quota(d, ret);
    if (d->facts->all_own && ret->bound != gf_bound_none)
        say_pinned_all(d, ret);
}

static enum gf_cpu_choice cpu_choice(const struct input *d, const struct gf_verdict *v)
{
    if (d->user_bound && !is_forced(d))
        return gf_cpu_choice_user;
    if (gf_set_empty(&v->nodes))
        return gf_cpu_choice_free;
    if (!gf_set_within(&d->facts->own, &d->local))
        return gf_cpu_choice_pinned;
    return gf_set_empty(&d->usable) || d->too_few ? gf_cpu_choice_remote : gf_cpu_choice_free;
}

void gf_verdict_decide(const struct gf_machine *machine, const struct gf_facts *facts,
                       const struct gf_probe *probe, const struct gf_options *options,
                       const struct gf_gpu *gpus, size_t gpu_count, struct gf_verdict *ret)
{
    struct input d = {
        .machine = machine,
        .facts = facts,
        .probe = probe,
        .options = options,
        .gpus = gpus,
        .gpu_count = gpu_count,
        .allowed = facts->cpuset,
        .user_bound = !gf_set_within(&facts->cpuset, &facts->start),
    };

    memset(ret, 0, sizeof(*ret));
    decide_cpus(&d, ret);
    gf_memory_verdict_decide(machine, facts, probe, options, cpu_choice(&d, ret), ret);
}
