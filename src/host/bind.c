/* SPDX-License-Identifier: Apache-2.0 */
#include "host/bind.h"

#include "base/clock.h"
#include "host/tasks.h"

#define PASSES_MAX 32 /* largest number of passes; new threads inherit the mask of their creator */
#define DEPTH_MAX 32  /* number of generations of child processes that are visited */

struct walk {
    const struct gf_bind_scope *scope;
    struct gf_bind_result *result;
    bool changed; /* true if this pass changed a mask */
    unsigned depth;
    uintptr_t cuda; /* address of libcuda in this process; 0 if unknown or not mapped */
};

/*
 * Changes the mask of a thread that has the mask `from`. Returns 1 if the mask was changed and read
 * back, 0 if there was nothing to change, or -1 on failure.
 */
static int bind_thread(struct walk *walk, pid_t tid, struct gf_cpus *ret_mask)
{
    const struct gf_bind_scope *scope = walk->scope;

    int error = gf_tasks_get_mask(tid, ret_mask);
    if (error || !gf_set_equal(ret_mask, &scope->from) || gf_set_equal(ret_mask, &scope->to))
        return 0;
    error = gf_tasks_set_mask(tid, &scope->to);
    if (!error)
        error = gf_tasks_get_mask(tid, ret_mask);
    if (!error && !gf_set_equal(ret_mask, &scope->to))
        error = -EXDEV; /* the mask lacks requested CPUs: the cpuset shrank, or CPUs went offline */
    if (error == -ESRCH)
        return 0;
    if (!error)
        return 1;
    walk->result->error = -error;
    return -1;
}

static void bind_own(void *closure, int task, pid_t tid)
{
    struct walk *walk = closure;
    struct gf_cpus mask = {0};

    (void)task;
    const enum gf_thread_class owner =
        walk->scope->owner ? walk->scope->owner(tid) : gf_thread_program;
    const int done = owner == gf_thread_self_set ? 0 : bind_thread(walk, tid, &mask);
    walk->changed |= done > 0;
    if (owner == gf_thread_self_set || owner == gf_thread_ours)
        walk->result->left++;
    else if (done < 0)
        walk->result->failed++;
    else if (gf_set_equal(&mask, &walk->scope->to))
        walk->result->bound++;
    else if (!gf_set_empty(&mask))
        walk->result->left++;
}

static void bind_child_thread(void *closure, int task, pid_t tid)
{
    struct walk *walk = closure;
    struct gf_cpus mask;

    (void)task;
    if (bind_thread(walk, tid, &mask) > 0) {
        walk->result->descendants++;
        walk->changed = true;
    }
}

static void bind_children_of(void *closure, int task, pid_t tid);

/*
 * Whether a child process has loaded libcuda itself. Such a child and its own children are left
 * unchanged, because the library in the child places them by the child's GPU. A child inherits a
 * mapped libcuda by fork at the address that it has in this process. In a new program, libcuda is
 * at another address.
 */
static bool has_own_cuda(struct walk *walk, pid_t child)
{
    const uint64_t since = walk->scope->cuda_since;
    uintptr_t theirs;
    uint64_t started;

    const int error = gf_tasks_find_map(child, "libcuda.so", &theirs);
    if (error)
        return error != -ENOENT;
    if (!since || gf_tasks_start_time(child, &started) || started < since)
        return true;
    if (!walk->cuda && gf_tasks_find_map(0, "libcuda.so", &walk->cuda))
        walk->cuda = 0;
    return theirs != walk->cuda;
}

static void bind_child(void *closure, pid_t child)
{
    struct walk *walk = closure;

    if (walk->depth >= DEPTH_MAX || has_own_cuda(walk, child))
        return;
    gf_tasks_each(child, bind_child_thread, walk);
    walk->depth++;
    gf_tasks_each(child, bind_children_of, walk);
    walk->depth--;
}

static void bind_children_of(void *closure, int task, pid_t tid)
{
    gf_tasks_children(task, tid, bind_child, closure);
}

void gf_bind_apply(const struct gf_bind_scope *scope, struct gf_bind_result *ret)
{
    const uint64_t begun = gf_now_ns();
    gf_keep_errno();
    struct walk walk = {.scope = scope, .result = ret};

    memset(ret, 0, sizeof(*ret));
    /*
     * During a pass, a thread that was not visited yet may create a thread, which then has the old
     * mask. So passes are repeated until one changes no mask.
     */
    for (unsigned pass = 0; pass < PASSES_MAX; pass++) {
        ret->bound = ret->left = ret->failed = 0;
        walk.changed = false;
        gf_tasks_each(0, bind_own, &walk);
        if (!walk.changed)
            break;
    }
    const bool descend = scope->descendants && gf_tasks_has_children();
    for (unsigned pass = 0; descend && pass < PASSES_MAX; pass++) {
        walk.changed = false;
        gf_tasks_each(0, bind_children_of, &walk);
        if (!walk.changed)
            break;
    }
    ret->usec = (unsigned)((gf_now_ns() - begun) / 1000);
}
