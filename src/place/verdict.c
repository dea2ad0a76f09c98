/* SPDX-License-Identifier: Apache-2.0 */
#include "place/verdict.h"

#include "base/fmt.h"
#include "place/locate.h"
#include "place/memory.h"
#include "place/need.h"
#include "place/ranks.h"

#include <errno.h>
#include <string.h>

#define LIST_MAX 64
#define SAY(ret, ...) gf_fmt((ret)->reason, sizeof((ret)->reason), __VA_ARGS__)
#define ADVISE(ret, ...) gf_fmt((ret)->remedy, sizeof((ret)->remedy), __VA_ARGS__)

/* What one decision is made from, and intermediate results that several rows need. */
struct decision {
    const struct gf_machine *machine;
    const struct gf_facts *facts;
    const struct gf_probe *probe;
    const struct gf_options *options;
    const struct gf_gpu *gpus;
    size_t gpu_count;
    struct gf_cpus allowed; /* what the process might use, had nobody narrowed its mask */
    struct gf_cpus local;   /* all CPUs of the GPUs' nodes */
    struct gf_cpus usable;  /* those of them that binding may use: in the start mask, unless forced */
    char nodes[LIST_MAX];   /* as text */
    bool user_bound;
};

const char *gf_bound_name(enum gf_bound bound)
{
    static const char *const names[] = {
        [gf_bound_none] = "none",     [gf_bound_node] = "node",
        [gf_bound_nodes] = "nodes",   [gf_bound_socket] = "socket",
        [gf_bound_exclusive] = "exclusive", [gf_bound_submitters] = "submitters",
    };
    return names[bound];
}

static bool forced(const struct decision *d)
{
    return d->options->bind == gf_bind_force;
}

static void find_allowed(struct decision *d)
{
    d->allowed = d->facts->cpuset;
    d->user_bound = !gf_set_within(&d->allowed, &d->facts->start);
}

static bool find_nodes(struct decision *d, struct gf_verdict *ret)
{
    for (size_t i = 0; i < d->gpu_count; i++) {
        struct gf_nodes nodes;
        const char *source;
        if (!gf_locate(d->machine, &d->gpus[i], &nodes, &source)) {
            SAY(ret, "the node of GPU %s is unknown: neither /sys nor NVML nor the driver tells it",
                d->gpus[i].bdf);
            ret->nodes = (struct gf_nodes){0};
            ret->node_source = NULL;
            return false;
        }
        gf_set_or(&ret->nodes, &ret->nodes, &nodes);
        ret->node_source = source;
    }
    gf_locate_cpus(d->machine, &ret->nodes, &d->local);
    const struct gf_cpus *among = forced(d) ? &d->allowed : &d->facts->start;
    gf_set_and(&d->usable, &d->local, among);
    gf_set_format(&ret->nodes, d->nodes, sizeof(d->nodes));
    gf_locate_socket(d->machine, &ret->nodes, &ret->socket);
    gf_set_and(&ret->socket, &ret->socket, among);
    return true;
}

static const char *plural(const struct gf_verdict *v)
{
    return gf_set_count(&v->nodes) > 1 ? "nodes" : "node";
}

/* False when it was cut off: where nodes take turns in numbering CPUs, a list is long. */
static bool format_whole(const struct gf_cpus *cpus, char ret[LIST_MAX])
{
    gf_set_format(cpus, ret, LIST_MAX);
    return !strstr(ret, "...");
}

/* The command that gives the process the GPU's CPUs where its start mask has none of them. */
static void advise_start(const struct decision *d, struct gf_verdict *ret)
{
    struct gf_cpus better;
    char list[LIST_MAX];

    gf_set_and(&better, &d->local, &d->allowed);
    const bool whole = format_whole(gf_set_empty(&better) ? &d->local : &better, list);
    if (d->facts->rank.source && strcmp(d->facts->rank.source, "Slurm") == 0)
        ADVISE(ret, "srun --gpu-bind=closest, or --cpu-bind=none and GPUFEED_BIND=auto");
    else if (whole)
        ADVISE(ret, "taskset -c %s COMMAND, or GPUFEED_BIND=force", list);
    else
        ADVISE(ret, "numactl --cpunodebind=%s COMMAND, or GPUFEED_BIND=force", d->nodes);
}

static void say_user_bound(const struct decision *d, struct gf_verdict *ret)
{
    char mask[LIST_MAX];

    gf_set_format(&d->facts->start, mask, sizeof(mask));
    if (gf_set_within(&d->facts->start, &d->local)) {
        SAY(ret, "the program was started on CPUs %s, which are on the GPU's %s %s: left so", mask,
            plural(ret), d->nodes);
    } else if (gf_set_empty(&d->usable)) {
        SAY(ret, "the program was started on CPUs %s, none of which is on the GPU's %s %s: left so",
            mask, plural(ret), d->nodes);
        advise_start(d, ret);
        ret->warn = true;
    } else {
        SAY(ret, "the program was started on CPUs %s (taskset, a scheduler or a launcher): left so",
            mask);
    }
}

/* Rows that leave every mask alone whatever the GPU's node is. True when one of them holds. */
static bool is_off(const struct decision *d, struct gf_verdict *ret)
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

/* Rows in which somebody else has the say over the CPUs. */
static bool is_theirs(const struct decision *d, struct gf_verdict *ret)
{
    if (forced(d))
        return false;
    if (d->facts->binder_source) {
        SAY(ret, "%s binds the program's CPUs itself: left to it", d->facts->binder_source);
        /* Accelerate under CUDA_VISIBLE_DEVICES takes another GPU's node: worth a word. */
        if (d->user_bound && gf_set_empty(&d->usable)) {
            SAY(ret, "%s bound the program to CPUs away from the GPU's %s %s", d->facts->binder_source,
                plural(ret), d->nodes);
            ADVISE(ret, "switch %s off and let GPUFEED_BIND=auto bind", d->facts->binder_source);
            ret->warn = true;
        }
    } else if (d->facts->single_cpu_pinning) {
        SAY(ret, "%s pins threads: their masks are left alone, memory only",
            d->facts->pinning_source);
    } else if (d->user_bound) {
        say_user_bound(d, ret);
    } else {
        return false;
    }
    return true;
}

/*
 * Whether the kernel gives memory on one of the GPUs' nodes. On a machine put in the place of this
 * one by GPUFEED_MACHINE the question makes no sense for nodes that this one lacks.
 */
static bool memory_excluded(const struct decision *d, const struct gf_verdict *v)
{
    struct gf_nodes host;

    gf_locate_host_nodes(d->machine, &host);
    gf_set_and(&host, &host, &v->nodes);
    return !*d->options->machine && !gf_set_empty(&host) && !gf_set_empty(&d->facts->mems) &&
           !gf_set_meet(&host, &d->facts->mems);
}

/* Rows in which there is nothing to bind to. */
static bool is_impossible(const struct decision *d, struct gf_verdict *ret)
{
    char list[LIST_MAX];

    if (!format_whole(&d->local, list))
        gf_fmt(list, sizeof(list), "LIST (that of lscpu for node %.24s)", d->nodes);
    if (gf_set_empty(&d->usable)) {
        SAY(ret, "this container or job may use no CPU of the GPU's %s %s", plural(ret), d->nodes);
        ADVISE(ret, "docker run --cpuset-cpus %s; Kubernetes: topology manager single-numa-node; "
                    "Slurm: --gpu-bind=closest", list);
        ret->warn = true;
    } else if (memory_excluded(d, ret)) {
        SAY(ret, "this container or job may use no memory of the GPU's %s %s", plural(ret), d->nodes);
        ADVISE(ret, "docker run --cpuset-mems %s; Kubernetes: memory manager Static", d->nodes);
        ret->warn = true;
    } else if (gf_set_within(&d->facts->start, &d->usable)) {
        SAY(ret, "all CPUs that the program may use are on the GPU's %s %s already", plural(ret),
            d->nodes);
    } else if (d->probe && d->probe->set_affinity && d->probe->set_affinity != GF_UNTRIED) {
        SAY(ret, "sched_setaffinity refused (%s)", strerrorname_np(d->probe->set_affinity));
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

static bool bind_exclusive(const struct decision *d, struct gf_verdict *ret)
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
            SAY(ret, error == -ERANGE ? "GPUFEED_BIND=exclusive: node %s has fewer usable cores than "
                                        "GPUs; shared instead"
                                      : "GPUFEED_BIND=exclusive: neither /sys nor the launcher tells "
                                        "who shares node %s; shared instead",
                d->nodes);
            ret->warn = true;
            return false;
        }
        gf_set_or(&all, &all, &share);
    }
    bind_to(gf_bound_exclusive, &all, ret);
    SAY(ret, "whole cores of %s %s, split over all of its GPUs by PCI order", plural(ret), d->nodes);
    return true;
}

static void bind_socket(const struct decision *d, struct gf_verdict *ret)
{
    if (gf_set_within(&d->facts->start, &ret->socket)) {
        SAY(ret, "all CPUs that the program may use are on the GPU's socket already");
        return;
    }
    bind_to(gf_bound_socket, &ret->socket, ret);
    SAY(ret, "the socket of the GPU's %s %s", plural(ret), d->nodes);
}

/* Too few CPUs on the node: the socket when that has enough and is less than everything. */
static void bind_small(const struct decision *d, unsigned need, struct gf_verdict *ret)
{
    const unsigned count = gf_set_count(&d->usable);

    if (gf_set_count(&ret->socket) >= need && !gf_set_within(&d->facts->start, &ret->socket)) {
        bind_to(gf_bound_socket, &ret->socket, ret);
        SAY(ret, "only %u CPU%s of %s %s may be used, %u are needed: bound to its socket", count,
            count == 1 ? "" : "s", plural(ret), d->nodes, need);
        return;
    }
    bind_to(gf_bound_submitters, &d->usable, ret);
    SAY(ret, "only %u CPU%s of %s %s may be used, %u are needed: only threads that submit work",
        count, count == 1 ? "" : "s", plural(ret), d->nodes, need);
}

static void bind_node(const struct decision *d, struct gf_verdict *ret)
{
    const unsigned need = gf_need_cpus(gf_set_count(&d->facts->start), d->facts->cpu_quota);

    /* An explicit wish for the node is carried out as it is; the guard widens if it must. */
    if (d->options->bind == gf_bind_auto && gf_set_count(&d->usable) < need) {
        bind_small(d, need, ret);
        return;
    }
    bind_to(gf_set_count(&ret->nodes) > 1 ? gf_bound_nodes : gf_bound_node, &d->usable, ret);
    if (!*ret->reason)
        SAY(ret, "the GPU's %s %s", plural(ret), d->nodes);
}

static void add_quota(const struct decision *d, struct gf_verdict *ret)
{
    const size_t length = strlen(ret->reason);
    const unsigned tenths = (unsigned)(d->facts->cpu_quota * 10 + 0.5);

    if (ret->bound != gf_bound_none && tenths > 0 && d->facts->cpu_quota < gf_set_count(&ret->cpus))
        gf_fmt(ret->reason + length, sizeof(ret->reason) - length,
               "; the CPU quota of %u.%u allows less than these", tenths / 10, tenths % 10);
}

static void decide_cpus(struct decision *d, struct gf_verdict *ret)
{
    /* The node is found first: it is reported also where nothing is bound. */
    const bool known = d->gpu_count > 0 && find_nodes(d, ret);
    if (is_off(d, ret))
        return;
    if (gf_locate_cpu_nodes(d->machine) <= 1) {
        SAY(ret, "single node: nothing to bind");
        return;
    }
    if (!known || is_theirs(d, ret) || is_impossible(d, ret))
        return;
    if (d->options->bind == gf_bind_socket)
        bind_socket(d, ret);
    else if (d->options->bind != gf_bind_exclusive || !bind_exclusive(d, ret))
        bind_node(d, ret);
    add_quota(d, ret);
}

void gf_verdict_decide(const struct gf_machine *machine, const struct gf_facts *facts,
                       const struct gf_probe *probe, const struct gf_options *options,
                       const struct gf_gpu *gpus, size_t gpu_count, struct gf_verdict *ret)
{
    struct decision d = {
        .machine = machine, .facts = facts, .probe = probe,
        .options = options, .gpus = gpus,   .gpu_count = gpu_count,
    };

    memset(ret, 0, sizeof(*ret));
    find_allowed(&d);
    decide_cpus(&d, ret);
    gf_memory_decide(machine, facts, probe, options, d.user_bound && !forced(&d), ret);
}
