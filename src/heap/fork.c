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

/* How this thread's fork goes; of forks within its handlers, which have nothing left to do, the outermost. */
static __thread struct {
    unsigned depth; /* 0 also in one by the only thread, and that began before these handlers were registered */
    bool gated;     /* else this thread has taken all locks */
    bool child;
} forking;

static void before(void)
{
    if (forking.depth == 0 && __libc_single_threaded)
        return;
    if (forking.depth++ > 0)
        return;
    /* jemalloc's handler notes whether it had threads, too; the child has none, and is told so by that alone. */
    const bool threads = __atomic_load_n(&je_background_thread_enabled_state, __ATOMIC_RELAXED);
    forking.gated = !threads && gf_gate_close();
    if (forking.gated)
        return;
    jemalloc.before();
    gf_gate_hold_all();
}

/* In parent and child. Of one within another, the other goes on in both, and ends in the child as a child. */
static void after(void)
{
    if (forking.depth == 0 || --forking.depth > 0)
        return;
    const bool child = forking.child;
    forking.child = false;
    if (!forking.gated)
        gf_gate_give_back(child ? jemalloc.child : jemalloc.parent);
    else if (child)
        jemalloc.child();
    else
        gf_gate_open();
    if (child) {
        gf_gate_in_child();
        gf_settings_in_child();
    }
}

static void in_child(void)
{
    if (forking.depth > 0)
        forking.child = true;
    after();
}

int gf_heap_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    jemalloc.before = prepare;
    jemalloc.parent = parent;
    jemalloc.child = child;
    return pthread_atfork(before, after, in_child);
}
