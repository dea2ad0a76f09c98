/* SPDX-License-Identifier: Apache-2.0 */
#include "place/bind.h"

#include "base/clock.h"
#include "host/tasks.h"

#include <errno.h>
#include <string.h>

#define PASSES_MAX 32   /* a program that creates threads without end is bound by inheritance */
#define DEPTH_MAX 32    /* generations of descendants */

struct walk {
    const struct gf_bind_scope *scope;
    struct gf_bind_result *result;
    bool changed; /* in this pass */
    unsigned depth;
    uintptr_t cuda; /* where this process has libcuda; 0: not asked yet, or nowhere */
};

/* 1 when the mask was changed and reads back, 0 when there was nothing to change, -1 on failure. */
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
        error = -EXDEV; /* the kernel gave other CPUs: a cpuset that shrank, CPUs gone offline */
    if (error == -ESRCH)
        return 0;
    if (!error)
        return 1;
    walk->result->error = -error;
    return -1;
}

static void see_own(void *closure, int task, pid_t tid)
{
    struct walk *walk = closure;
    struct gf_cpus mask = {0};

    (void)task;
    if (walk->scope->skip && walk->scope->skip(walk->scope->closure, tid)) {
        walk->result->left++;
        return;
    }
    const int done = bind_thread(walk, tid, &mask);
    if (done < 0)
        walk->result->failed++;
    else if (gf_set_equal(&mask, &walk->scope->to))
        walk->result->bound++;
    else if (!gf_set_empty(&mask))
        walk->result->left++;
    walk->changed |= done > 0;
}

static void see_descendant_thread(void *closure, int task, pid_t tid)
{
    struct walk *walk = closure;
    struct gf_cpus mask;

    (void)task;
    if (bind_thread(walk, tid, &mask) > 0) {
        walk->result->descendants++;
        walk->changed = true;
    }
}

static void see_parent_thread(void *closure, int task, pid_t tid);

/*
 * Such a child is, or will be, placed by its own GPU, and so are its children. What a fork left in
 * place stands where ours does; what a new program has loaded stands elsewhere.
 */
static bool has_own_cuda(struct walk *walk, pid_t child)
{
    const uint64_t since = walk->scope->cuda_since;
    uintptr_t theirs;
    uint64_t born;

    const int error = gf_tasks_find_map(child, "libcuda.so", &theirs);
    if (error)
        return error != -ENOENT;
    if (!since || gf_tasks_born(child, &born) || born < since)
        return true;
    if (!walk->cuda && gf_tasks_find_map(0, "libcuda.so", &walk->cuda))
        walk->cuda = 0;
    return theirs != walk->cuda;
}

static void see_child(void *closure, pid_t child)
{
    struct walk *walk = closure;

    if (walk->depth >= DEPTH_MAX || has_own_cuda(walk, child))
        return;
    gf_tasks_each(child, see_descendant_thread, walk);
    walk->depth++;
    gf_tasks_each(child, see_parent_thread, walk);
    walk->depth--;
}

static void see_parent_thread(void *closure, int task, pid_t tid)
{
    gf_tasks_children(task, tid, see_child, closure);
}

void gf_bind_apply(const struct gf_bind_scope *scope, struct gf_bind_result *ret)
{
    const uint64_t begun = gf_now_ns();
    const int saved = errno;
    struct walk walk = {.scope = scope, .result = ret};

    memset(ret, 0, sizeof(*ret));
    /* A thread born of one not yet seen has the old mask; one pass that changes nothing is the end. */
    for (unsigned pass = 0; pass < PASSES_MAX; pass++) {
        ret->bound = ret->left = ret->failed = 0;
        walk.changed = false;
        gf_tasks_each(0, see_own, &walk);
        if (!walk.changed)
            break;
    }
    const bool descend = scope->descendants && gf_tasks_has_children();
    for (unsigned pass = 0; descend && pass < PASSES_MAX; pass++) {
        walk.changed = false;
        gf_tasks_each(0, see_parent_thread, &walk);
        if (!walk.changed)
            break;
    }
    ret->usec = (unsigned)((gf_now_ns() - begun) / 1000);
    errno = saved;
}
