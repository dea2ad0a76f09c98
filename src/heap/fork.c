/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc would take each of its locks before a fork and give them back behind it, in parent and child: a
 * page that is copied for every few of them. Where the gate can be closed, it sees to it that none is held, and
 * the child alone makes them anew. A process with one thread has nobody who could hold one, so it forks as
 * under glibc, which goes by the same word. A signal handler of its that forks in the midst of a malloc would wait for
 * ever, and does not.
 */
#include "heap/gate.h"
#include "heap/jemalloc.h"
#include "heap/settings.h"

#include <pthread.h>
#include <sys/single_threaded.h>

static struct {
    void (*before)(void), (*parent)(void), (*child)(void);
} jemalloc;

/*
 * What this thread's fork keeps others out by; nothing, not even written to, where it is the only one. None of the
 * program's handlers runs between these: on_fork.c has them registered before any of its.
 */
static __thread enum { nothing, gate, locks } held;

static void before(void)
{
    if (__libc_single_threaded)
        return;
    /* jemalloc's handler notes whether it had threads, too; the child has none, and is told so by that alone. */
    const bool threads = __atomic_load_n(&je_background_thread_enabled_state, __ATOMIC_RELAXED);
    held = !threads && gf_gate_close() ? gate : locks;
    if (held == locks)
        jemalloc.before();
}

static void in_parent(void)
{
    if (held == nothing)
        return;
    if (held == gate)
        gf_gate_open();
    else
        jemalloc.parent();
    held = nothing;
}

static void in_child(void)
{
    if (held == nothing)
        return;
    jemalloc.child();
    gf_gate_in_child();
    gf_settings_in_child();
    held = nothing;
}

int gf_heap_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    jemalloc.before = prepare;
    jemalloc.parent = parent;
    jemalloc.child = child;
    return pthread_atfork(before, in_parent, in_child);
}
