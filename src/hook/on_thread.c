/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pthread_create: passed straight on while nobody wants to know; else the new thread runs a few
 * instructions of ours first, and then the program's start routine as its own tail call.
 */
#include "hook/on_thread.h"

#include "hook/attach.h"
#include "hook/classes.h"
#include "hook/counters.h"
#include "hook/originals.h"
#include "hook/routes.h"
#include "hook/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACK_MIN ((size_t)1 << 20)

struct newborn {
    struct newborn *next;
    void *(*run)(void *);
    void *arg;
    enum gf_thread_class class;
};

/*
 * What newborns have read. They do not free it themselves: for that alone the heap would give each an
 * arena and a cache, whose locks every later fork of the process takes, and pays for page by page.
 */
static struct newborn *spent;

static void lay_down(struct newborn *self)
{
    self->next = __atomic_load_n(&spent, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&spent, &self->next, self, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
        ;
}

/* One for the next; the rest is freed. All are taken at once, so that none comes back meanwhile. */
static struct newborn *pick_up(void)
{
    struct newborn *first = __atomic_exchange_n(&spent, NULL, __ATOMIC_ACQUIRE);
    if (!first)
        return malloc(sizeof(*first));
    for (struct newborn *more = first->next, *next; more; more = next) {
        next = more->next;
        free(more);
    }
    return first;
}

static void *begin(void *closure)
{
    struct newborn *self = closure;
    void *(*const run)(void *) = self->run;
    void *const arg = self->arg;
    const enum gf_thread_class class = self->class;

    gf_thread.ours = class == gf_thread_ours;
    /* The program's own too: a thread that ended may have left a class under this id. */
    gf_classes_set(gettid(), class);
    if (class == gf_thread_program)
        gf_heap_thread_born(); /* before any other call of the heap gives this thread an arena */
    else if (class == gf_thread_driver)
        gf_heap_thread_aside(); /* our helpers allocate nothing, and shall not begin with a cache */
    lay_down(self);
    if (class == gf_thread_program) {
        const struct gf_engine *engine = gf_engine_enter();
        if (engine) {
            const int cancel = gf_thread_hold_cancel();
            engine->thread_born();
            gf_thread_release_cancel(cancel);
            gf_engine_leave();
        }
    }
    return run(arg);
}

static int create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg,
                  enum gf_thread_class class)
{
    const int before = errno;
    struct newborn *self = pick_up();
    errno = before; /* pthread_create reports by its result alone */
    if (!self)
        return gf_originals()->pthread_create(ret, attr, run, arg);
    *self = (struct newborn){.run = run, .arg = arg, .class = class};
    const int error = gf_originals()->pthread_create(ret, attr, begin, self);
    if (error)
        lay_down(self);
    return error;
}

/* glibc answers all ones where there is no affinity, EINVAL for a mask beyond the buffer. */
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

static enum gf_thread_class classify(const pthread_attr_t *attr, const void *caller)
{
    if (gf_thread.ours || gf_thread.guard)
        return gf_thread_ours;
    if (gf_thread.in_driver || gf_routes_in_driver(caller))
        return gf_thread_driver;
    return has_affinity(attr) ? gf_thread_self_set : gf_thread_program;
}

GF_EXPORT int pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
                             void *arg)
{
    gf_count(gf_hook_pthread_create);
    gf_heap_init();
    const enum gf_thread_class class = classify(attr, __builtin_return_address(0));
    if (class == gf_thread_program && !gf_engine() && !gf_classes_used())
        return gf_originals()->pthread_create(ret, attr, run, arg);
    return create(ret, attr, run, arg, class);
}

/* The program's default may be less than our libraries need: `ulimit -s` sets it. */
static int prepare(pthread_attr_t *ret)
{
    size_t stack;
    const int error = pthread_getattr_default_np(ret);
    if (error)
        return error;
    if (pthread_attr_getstacksize(ret, &stack) == 0 && stack < STACK_MIN)
        pthread_attr_setstacksize(ret, STACK_MIN);
    return pthread_attr_setdetachstate(ret, PTHREAD_CREATE_DETACHED);
}

int gf_on_thread_start_ours(void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int error = prepare(&attr);
    if (error)
        return error;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = create(&thread, &attr, run, arg, gf_thread_ours);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error;
}
