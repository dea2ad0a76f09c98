/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/thread_binding.h"

#include "engine/process/process_state.h"
#include "host/mempolicy.h"
#include "host/tasks.h"

#include <stdlib.h>

void gf_thread_binding_move(const struct gf_cpus *from, const struct gf_cpus *to, bool descendants,
                            struct gf_bind_result *ret)
{
    struct gf_bind_result result = {0};
    const struct gf_bind_scope scope = {.from = *from,
                                        .to = *to,
                                        .owner = gf_process.preload->thread_class,
                                        .descendants = descendants,
                                        .cuda_since = gf_process.cuda_since};

    if (gf_set_equal(from, to) || gf_set_empty(from))
        return;
    gf_bind_apply(&scope, &result);
    ret->bound = result.bound;
    ret->left = result.left;
    ret->failed += result.failed;
    ret->descendants += result.descendants;
    ret->error = result.error ? result.error : ret->error;
    ret->usec += result.usec;
    if (ret->descendants > gf_load_relaxed(&gf_process.counts.peak_descendants))
        gf_store_relaxed(&gf_process.counts.peak_descendants, ret->descendants);
    /*
     * The library's thread gets the mask `to` even if its mask is not `from`, because it touches
     * memory for the program.
     */
    gf_tasks_set_mask(gf_process.thread, to);
}

static void read_own_mask(void *closure, int task, pid_t tid)
{
    struct gf_facts *facts = closure;
    const struct gf_placement *placement = gf_process_placement();
    const enum gf_thread_class owner = gf_process.preload->thread_class(tid);
    struct gf_cpus mask;

    (void)task;
    if (owner == gf_thread_driver || owner == gf_thread_ours || gf_tasks_get_mask(tid, &mask))
        return;
    const bool ours = (placement && placement->bound && gf_set_equal(&mask, &placement->cpus)) ||
                      (gf_process.hinted && gf_set_equal(&mask, &gf_process.hint.set));
    if (owner == gf_thread_program && (ours || gf_set_equal(&mask, &facts->start)))
        facts->all_own = false;
    else
        gf_set_or(&facts->own, &facts->own, &mask);
}

void gf_thread_binding_read_own(struct gf_facts *facts)
{
    gf_keep_errno();

    memset(&facts->own, 0, sizeof(facts->own));
    facts->all_own = true;
    if (gf_tasks_each(0, read_own_mask, facts) || gf_set_empty(&facts->own))
        facts->all_own = false;
}

static void add_program_mask(void *closure, int task, pid_t tid)
{
    struct gf_cpus *cpus = closure, mask;
    const enum gf_thread_class owner = gf_process.preload->thread_class(tid);

    (void)task;
    if ((owner == gf_thread_program || owner == gf_thread_self_set) &&
        !gf_tasks_get_mask(tid, &mask))
        gf_set_or(cpus, cpus, &mask);
}

void gf_thread_binding_read_program(struct gf_cpus *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (gf_tasks_each(0, add_program_mask, ret))
        memset(ret, 0, sizeof(*ret));
}

/*
 * The epoch of the placement that this thread has applied; 0 for none. settled_submits: whether it
 * applied the placement as a thread that submits work.
 */
static __thread unsigned settled_epoch;
static __thread bool settled_submits;

/*
 * Whether the policy equals the policy in the hint (GPUFEED_BOUND), which a bound process passes to
 * its children.
 */
static bool is_inherited(int mode, const struct gf_nodes *nodes)
{
    const struct gf_hint *hint = &gf_process.hint;
    return gf_process.hinted && hint->policy != GF_MPOL_DEFAULT && (mode & 0xff) == hint->policy &&
           gf_set_equal(nodes, &hint->nodes);
}

/*
 * Whether the library has set this policy, in this process or in the process that passed the hint.
 */
static bool is_of_library(int mode, const struct gf_nodes *nodes)
{
    if (is_inherited(mode, nodes))
        return true;
    for (const struct gf_placement *p = gf_process_placement(); p; p = p->before)
        if (p->policy == mode && gf_set_equal(&p->policy_nodes, nodes))
            return true;
    return false;
}

bool gf_thread_binding_user_policy(int *ret_mode, struct gf_nodes *ret_nodes)
{
    return gf_mempolicy_read(ret_mode, ret_nodes) && *ret_mode != GF_MPOL_DEFAULT &&
           !is_of_library(*ret_mode, ret_nodes);
}

/*
 * Whether the library may set the policy of the calling thread: the thread has no policy, or one
 * that the library has set. Sets *ret_is_ours to whether the library has set the thread's policy.
 */
static bool may_set_policy(bool *ret_is_ours)
{
    struct gf_nodes nodes;
    int mode;

    *ret_is_ours = false;
    if (!gf_mempolicy_read(&mode, &nodes))
        return false;
    *ret_is_ours = mode != GF_MPOL_DEFAULT && is_of_library(mode, &nodes);
    return mode == GF_MPOL_DEFAULT || *ret_is_ours;
}

void gf_thread_binding_drop_inherited(void)
{
    struct gf_nodes nodes;
    int mode;

    if (gf_mempolicy_read(&mode, &nodes) && is_inherited(mode, &nodes))
        gf_mempolicy_set(GF_MPOL_DEFAULT, NULL);
}

static void set_thread_policy(const struct gf_placement *placement)
{
    const bool none = placement->policy == GF_MPOL_DEFAULT;
    bool is_ours;

    if (!may_set_policy(&is_ours) || (none && !is_ours))
        return;
    if (gf_mempolicy_set(placement->policy, &placement->policy_nodes))
        gf_add_relaxed(&gf_process.counts.policy_refused, 1);
    else if (!none)
        gf_add_relaxed(&gf_process.counts.policy_threads, 1);
}

/*
 * Whether the hint, or any placement so far, has a policy. If not, no thread has a policy of the
 * library.
 */
static bool has_policy(const struct gf_placement *placement)
{
    if (gf_process.hinted && gf_process.hint.policy != GF_MPOL_DEFAULT)
        return true;
    while (placement && placement->policy == GF_MPOL_DEFAULT)
        placement = placement->before;
    return placement != NULL;
}

static void count_kept(void *closure, int task, pid_t tid)
{
    unsigned *kept = closure;
    char found[80], text[80];

    if (gf_process.preload->thread_class(tid) == gf_thread_ours ||
        gf_tasks_policy(task, tid, found, sizeof(found)))
        return;
    for (const struct gf_placement *p = gf_process_placement()->before; p; p = p->before)
        if (p->policy != GF_MPOL_DEFAULT &&
            strcmp(found, gf_mempolicy_kernel_text(p->policy, &p->policy_nodes, text,
                                                   sizeof(text))) == 0) {
            ++*kept;
            return;
        }
}

unsigned gf_thread_binding_count_kept(void)
{
    const struct gf_placement *placement = gf_process_placement();
    unsigned kept = 0;

    if (placement && placement->policy == GF_MPOL_DEFAULT && has_policy(placement))
        gf_tasks_each(0, count_kept, &kept);
    return kept;
}

/*
 * Binds the calling thread if it has the start mask. The thread or its creator may have restored
 * this mask.
 */
static void bind_late(const struct gf_placement *placement, struct gf_cpus *mask)
{
    const pid_t tid = (pid_t)syscall(SYS_gettid);
    if (!gf_set_equal(mask, &placement->start) ||
        gf_process.preload->thread_class(tid) == gf_thread_self_set ||
        gf_tasks_set_mask(tid, &placement->cpus))
        return;
    *mask = placement->cpus;
    gf_add_relaxed(&gf_process.counts.late_threads, 1);
}

/*
 * Undoes the binding that a thread or forked child inherited from a thread that submits work: sets
 * the start mask, and removes the policy.
 */
static bool release_from_submitter(const struct gf_placement *placement)
{
    struct gf_cpus mask;
    bool is_ours;

    if (gf_tasks_get_mask(0, &mask) || !gf_set_equal(&mask, &placement->cpus) ||
        gf_tasks_set_mask(0, &placement->start))
        return false;
    if (may_set_policy(&is_ours) && is_ours)
        gf_mempolicy_set(GF_MPOL_DEFAULT, NULL);
    return true;
}

bool gf_thread_binding_program_begin(void)
{
    const struct gf_placement *placement = gf_process_placement();
    gf_keep_errno();
    return placement && placement->bound && placement->submitters &&
           release_from_submitter(placement);
}

void gf_thread_binding_program_end(void)
{
    const struct gf_placement *placement = gf_process_placement();
    gf_keep_errno();
    struct gf_cpus mask;
    bool is_ours;

    /*
     * If the guard has restored the start mask since program_begin, the thread is not bound again.
     */
    if (placement->bound && gf_tasks_get_mask(0, &mask) == 0 &&
        gf_set_equal(&mask, &placement->start) && gf_tasks_set_mask(0, &placement->cpus) == 0 &&
        placement->policy != GF_MPOL_DEFAULT && may_set_policy(&is_ours))
        gf_mempolicy_set(placement->policy, &placement->policy_nodes);
}

static bool is_settled(const struct gf_placement *placement, bool submits)
{
    return settled_epoch == placement->epoch &&
           (settled_submits || !submits || !placement->submitters);
}

void gf_thread_binding_settle(bool submits)
{
    const struct gf_placement *placement = gf_process_placement();
    gf_keep_errno();
    struct gf_cpus mask;

    if (!placement || is_settled(placement, submits))
        return;
    settled_epoch = placement->epoch;
    settled_submits = submits;
    if (gf_process.preload->thread_class((pid_t)syscall(SYS_gettid)) == gf_thread_ours)
        return;
    if (placement->bound && placement->submitters && !submits) {
        release_from_submitter(placement);
    } else if (placement->bound && gf_tasks_get_mask(0, &mask) == 0) {
        if (!gf_set_equal(&mask, &placement->cpus))
            bind_late(placement, &mask);
        if (has_policy(placement) && gf_set_equal(&mask, &placement->cpus))
            set_thread_policy(placement);
    } else if (!placement->bound && has_policy(placement)) {
        set_thread_policy(placement);
    }
}

void gf_thread_binding_rescan(void)
{
    const struct gf_placement *placement = gf_process_placement();
    struct gf_bind_result result = {0};
    struct gf_threads found;

    if (!placement || !placement->bound || placement->submitters)
        return;
    gf_locality_threads(&placement->start, gf_process.preload->thread_class, &found);
    if (!found.on_target && !found.driver_on_target)
        return;
    gf_thread_binding_move(&placement->start, &placement->cpus, false, &result);
    gf_add_relaxed(&gf_process.counts.late_threads, found.on_target);
}

/*
 * Lets the heap's present and future mappings use any node again, and removes the hint, so that
 * child processes do not get it.
 */
static void undo_memory(void)
{
    static const struct gf_nodes none;
    struct gf_range *ranges;

    if (gf_process.preload->heap->set_node)
        gf_process.preload->heap->set_node(GF_MPOL_DEFAULT, &none);
    const size_t count = gf_process_heap_ranges(&ranges);
    for (size_t i = 0; i < count; i++)
        gf_mempolicy_set_range((void *)ranges[i].start, ranges[i].size, GF_MPOL_DEFAULT, NULL);
    free(ranges);
    gf_hint_publish(NULL);
}

void gf_placement_publish(const struct gf_placement *placement)
{
    struct gf_hint hint = {.pid = gf_process.pid,
                           .was = placement->start,
                           .set = placement->cpus,
                           .policy = placement->policy};

    if (placement->policy != GF_MPOL_DEFAULT)
        hint.nodes = placement->policy_nodes;
    gf_hint_publish(&hint);
}

void gf_thread_binding_widen(bool to_start)
{
    const struct gf_placement *old = gf_process_placement();
    struct gf_bind_result result = {0};
    char before[256], after[256];

    if (!old || !old->bound)
        return;
    struct gf_placement *wide = malloc(sizeof(*wide));
    if (!wide)
        return;
    *wide = *old;
    wide->epoch++;
    wide->before = old;
    wide->cpus = to_start ? old->start : old->socket;
    wide->bound = !to_start;
    wide->given_up = to_start;
    if (to_start) {
        wide->policy = GF_MPOL_DEFAULT;
        wide->policy_nodes = (struct gf_nodes){0};
    }
    gf_store_release(&gf_process.placement, wide);
    gf_thread_binding_move(&old->cpus, &wide->cpus, true, &result);
    if (gf_process.preload->heap->set_cpus)
        gf_process.preload->heap->set_cpus(gf_set_count(&wide->cpus));
    if (to_start)
        undo_memory();
    else
        gf_placement_publish(wide);
    gf_events_announce(
        gf_report_widened,
        "threads waited for a CPU while other CPUs were idle: widened from CPUs %s to %s",
        gf_set_format(&old->cpus, before, sizeof(before)),
        gf_set_format(&wide->cpus, after, sizeof(after)));
}
