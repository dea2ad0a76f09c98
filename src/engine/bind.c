/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/state.h"

#include "base/log.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool get_mask(pid_t tid, struct gf_cpus *ret)
{
    *ret = (struct gf_cpus){0};
    return syscall(SYS_sched_getaffinity, tid, sizeof(*ret), ret) > 0;
}

static bool set_mask(pid_t tid, const struct gf_cpus *mask)
{
    return syscall(SYS_sched_setaffinity, tid, sizeof(*mask), mask) == 0;
}

enum gf_mask_owner gf_thread_owner(pid_t tid)
{
    switch (gf_process.door->thread_class(tid)) {
    case gf_thread_program:
        break;
    case gf_thread_self_set:
        return gf_mask_self_set;
    case gf_thread_driver:
        return gf_mask_driver;
    case gf_thread_ours:
        return gf_mask_ours;
    }
    return gf_mask_program;
}

bool gf_thread_skipped(void *closure, pid_t tid)
{
    (void)closure;
    const enum gf_mask_owner owner = gf_thread_owner(tid);
    return owner == gf_mask_self_set || owner == gf_mask_ours;
}

void gf_bind_move(const struct gf_cpus *from, const struct gf_cpus *to, bool descendants,
                  struct gf_bind_result *ret)
{
    struct gf_bind_result result = {0};
    const struct gf_bind_scope scope = {
        .from = *from, .to = *to, .skip = gf_thread_skipped, .descendants = descendants,
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
    if (ret->descendants > gf_process.peak_descendants)
        gf_process.peak_descendants = ret->descendants;
    /* Ours goes along at once: what it touches for the program shall be where the program is. */
    set_mask(gf_process.watcher, to);
}

#define NODE_BITS ((unsigned long)GF_NODES_MAX + 1) /* the kernel counts one more than there are */

/* The epoch of the placement that this thread has been given its share of; 0: of none. */
static __thread unsigned settled_epoch;

/* Whether it is what a process that bound gave to the program that it started: its hint says so. */
static bool is_hinted(int mode, const struct gf_nodes *nodes)
{
    const struct gf_hint *hint = &gf_process.hint;
    return gf_process.hinted && hint->policy != MPOL_DEFAULT && (mode & 0xff) == hint->policy &&
           gf_set_equal(nodes, &hint->nodes);
}

/* Whether nobody but us has given this thread a policy; it may have inherited ours. */
static bool may_set_policy(const struct gf_placement *placement, bool *ret_has_ours)
{
    struct gf_nodes nodes = {0};
    int mode;

    *ret_has_ours = false;
    if (syscall(SYS_get_mempolicy, &mode, nodes.word, NODE_BITS, NULL, 0) != 0)
        return false;
    if (mode == MPOL_DEFAULT)
        return true;
    *ret_has_ours = is_hinted(mode, &nodes);
    for (const struct gf_placement *p = placement; p && !*ret_has_ours; p = p->before)
        *ret_has_ours = p->policy == mode && gf_set_equal(&p->policy_nodes, &nodes);
    return *ret_has_ours;
}

void gf_thread_take_back(void)
{
    struct gf_nodes nodes = {0};
    int mode;

    if (syscall(SYS_get_mempolicy, &mode, nodes.word, NODE_BITS, NULL, 0) == 0 &&
        is_hinted(mode, &nodes))
        syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
}

static void give_policy(const struct gf_placement *placement)
{
    const bool none = placement->policy == MPOL_DEFAULT;
    bool has_ours;

    if (!may_set_policy(placement, &has_ours) || (none && !has_ours))
        return;
    if (syscall(SYS_set_mempolicy, placement->policy, none ? NULL : placement->policy_nodes.word,
                none ? 0 : NODE_BITS) != 0)
        __atomic_fetch_add(&gf_process.policy_refused, 1, __ATOMIC_RELAXED);
    else if (!none)
        __atomic_fetch_add(&gf_process.policy_threads, 1, __ATOMIC_RELAXED);
}

/* Whether any placement so far, or the hint, came with a policy: else no thread needs to be asked. */
static bool has_policy(const struct gf_placement *placement)
{
    if (gf_process.hinted && gf_process.hint.policy != MPOL_DEFAULT)
        return true;
    while (placement && placement->policy == MPOL_DEFAULT)
        placement = placement->before;
    return placement != NULL;
}

/* A thread whose creator had the start mask (a library had restored it) and was bound since. */
static bool join_late(const struct gf_placement *placement, struct gf_cpus *mask)
{
    const pid_t tid = (pid_t)syscall(SYS_gettid);
    if (!gf_set_equal(mask, &placement->start) || gf_thread_skipped(NULL, tid) ||
        !set_mask(tid, &placement->cpus))
        return false;
    *mask = placement->cpus;
    __atomic_fetch_add(&gf_process.late_threads, 1, __ATOMIC_RELAXED);
    return true;
}

void gf_thread_settle(bool submits)
{
    const struct gf_placement *placement = gf_placement();
    const int error = errno;
    struct gf_cpus mask;

    if (!placement || settled_epoch == placement->epoch)
        return;
    settled_epoch = placement->epoch;
    if (gf_thread_owner((pid_t)syscall(SYS_gettid)) == gf_mask_ours)
        return;
    if (placement->bound && get_mask(0, &mask)) {
        if ((submits || !placement->submitters) && !gf_set_equal(&mask, &placement->cpus))
            join_late(placement, &mask);
        if (has_policy(placement) && gf_set_equal(&mask, &placement->cpus))
            give_policy(placement);
    } else if (!placement->bound && has_policy(placement)) {
        give_policy(placement);
    }
    errno = error;
}

void gf_rescan(void)
{
    const struct gf_placement *placement = gf_placement();
    struct gf_bind_result result = {0};
    struct gf_threads found;

    if (!placement || !placement->bound || placement->submitters)
        return;
    gf_locality_threads(&placement->start, gf_thread_owner, &found);
    if (!found.on_target && !found.driver_on_target)
        return;
    gf_bind_move(&placement->start, &placement->cpus, false, &result);
    __atomic_fetch_add(&gf_process.late_threads, found.on_target, __ATOMIC_RELAXED);
}

/* New memory of the heap from anywhere again, and children are told nothing. */
static void undo_memory(void)
{
    static const struct gf_nodes none;
    if (gf_process.door->heap->set_node)
        gf_process.door->heap->set_node(MPOL_DEFAULT, &none);
    gf_hint_publish(NULL);
}

void gf_widen(bool to_start)
{
    const struct gf_placement *old = gf_placement();
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
    if (to_start)
        wide->policy = MPOL_DEFAULT;
    __atomic_store_n(&gf_process.placement, wide, __ATOMIC_RELEASE);
    gf_bind_move(&old->cpus, &wide->cpus, true, &result);
    if (gf_process.door->heap->set_cpus)
        gf_process.door->heap->set_cpus(gf_set_count(&wide->cpus));
    if (to_start) {
        undo_memory();
    } else {
        const struct gf_hint hint = {.pid = gf_process.pid, .was = wide->start, .set = wide->cpus,
                                     .policy = wide->policy, .nodes = wide->policy_nodes};
        gf_hint_publish(&hint);
    }
    gf_output_event(gf_report_widened,
                    "threads waited for a CPU while others stood idle: widened from CPUs %s to %s",
                    gf_set_format(&old->cpus, before, sizeof(before)),
                    gf_set_format(&wide->cpus, after, sizeof(after)));
}
