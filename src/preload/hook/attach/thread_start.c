/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/hook/attach/thread_start.h"

#include "base/atomic.h"
#include "preload/heap/arenas.h"
#include "preload/hook/hook_thread.h"
#include "preload/hook/originals/originals.h"
#include "preload/hook/thread_class.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define STACK_MIN ((size_t)1 << 20)

struct thread_start {
    struct thread_start *next;
    void *(*run)(void *);
    void *arg;
    void (*on_start)(void);
    enum gf_thread_class class;
};

/*
 * A list of struct thread_start that their new threads have read. A later thread start reuses one
 * of them and frees the others. A new thread does not free its own struct, because its first call
 * of free would create an arena and a cache. The locks and pages of these would make later forks
 * slower.
 */
static struct thread_start *_Atomic spent;

static void thread_start_return(struct thread_start *self)
{
    self->next = gf_load_relaxed(&spent);
    while (!atomic_compare_exchange_weak_explicit(&spent, &self->next, self, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

/*
 * Returns an element of the list `spent` and frees the others, or allocates a new struct if the
 * list is empty. The whole list is taken by one exchange, which avoids the ABA problem.
 */
static struct thread_start *thread_start_get(void)
{
    struct thread_start *first = gf_exchange_acquire(&spent, NULL);
    if (!first)
        return malloc(sizeof(*first));
    for (struct thread_start *more = first->next, *next; more; more = next) {
        next = more->next;
        free(more);
    }
    return first;
}

static void *begin_thread(void *closure)
{
    struct thread_start *self = closure;
    const struct thread_start own = *self;

    gf_thread.ours = own.class == gf_thread_ours;
    /*
     * Sets the class even if it is gf_thread_program, because an ended thread with the same id may
     * have left another class.
     */
    gf_thread_class_set(gettid(), own.class);
    if (own.class == gf_thread_program)
        /* Called before the thread's first heap call, which would choose an arena. */
        gf_arenas_thread_started();
    else if (own.class == gf_thread_driver)
        /* Not on threads of this library, because helpers allocate nothing. */
        gf_arenas_share_main();
    thread_start_return(self);
    if (own.on_start)
        own.on_start();
    return own.run(own.arg);
}

int gf_thread_start(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg,
                    enum gf_thread_class class, void (*on_start)(void))
{
    const int before = errno;
    struct thread_start *self = thread_start_get();
    errno = before; /* like pthread_create, this must not set errno */
    if (!self)
        return gf_originals()->pthread_create(ret, attr, run, arg);
    *self = (struct thread_start){.run = run, .arg = arg, .on_start = on_start, .class = class};
    const int error = gf_originals()->pthread_create(ret, attr, begin_thread, self);
    if (error)
        thread_start_return(self);
    return error;
}

/* The default stack size (`ulimit -s`) may be too small for the engine's libraries. */
static int prepare_attr(pthread_attr_t *ret)
{
    size_t stack;
    const int error = pthread_getattr_default_np(ret);
    if (error)
        return error;
    if (pthread_attr_getstacksize(ret, &stack) == 0 && stack < STACK_MIN)
        pthread_attr_setstacksize(ret, STACK_MIN);
    return pthread_attr_setdetachstate(ret, PTHREAD_CREATE_DETACHED);
}

int gf_thread_start_own(void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int error = prepare_attr(&attr);
    if (error)
        return error;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = gf_thread_start(&thread, &attr, run, arg, gf_thread_ours, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error;
}
