/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hook of pthread_create. While there is no engine and no thread's class was recorded, a call
 * that creates a thread of the program passes through. In all other cases the hook records the new
 * thread's class. A new thread of the program then also calls the engine.
 */
#include "preload/hook/attach/engine_call.h"
#include "preload/hook/attach/thread_start.h"
#include "preload/hook/counters.h"
#include "preload/hook/originals/driver.h"
#include "preload/hook/originals/originals.h"
#include "preload/hook/thread_class.h"
#include "preload/malloc/start.h"

/* Runs on a new thread of the program. */
static void announce_thread(void)
{
    const struct gf_engine *engine = gf_engine_enter();
    if (!engine)
        return;
    const int cancel = gf_thread_hold_cancel();
    engine->thread_started();
    gf_thread_release_cancel(cancel);
    gf_engine_leave();
}

/*
 * Whether attr sets a CPU mask. If attr has no mask, glibc returns a mask of all ones. If the mask
 * does not fit, glibc returns EINVAL.
 */
static bool has_affinity(const pthread_attr_t *attr)
{
    struct gf_cpus mask;
    if (!attr)
        return false;
    if (pthread_attr_getaffinity_np(attr, sizeof(mask), (cpu_set_t *)&mask) != 0)
        return true;
    for (size_t i = 0; i < GF_ARRAY_LEN(mask.word); i++)
        if (mask.word[i] != UINT64_MAX)
            return true;
    return false;
}

static enum gf_thread_class classify_thread(const pthread_attr_t *attr, const void *caller)
{
    if (gf_thread.ours || gf_thread.guard)
        return gf_thread_ours;
    if (gf_thread.in_driver || gf_driver_contains(caller))
        return gf_thread_driver;
    return has_affinity(attr) ? gf_thread_self_set : gf_thread_program;
}

int gf_on_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
                         void *arg)
{
    gf_count(gf_hook_pthread_create);
    gf_start();
    const enum gf_thread_class class = classify_thread(attr, __builtin_return_address(0));
    if (class != gf_thread_program)
        return gf_thread_start(ret, attr, run, arg, class, NULL);
    if (!gf_engine() && !gf_thread_class_used())
        return gf_originals()->pthread_create(ret, attr, run, arg);
    return gf_thread_start(ret, attr, run, arg, class, announce_thread);
}
