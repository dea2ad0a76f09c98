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
    /* Between the calls for one fork: by the only thread; with the gate closed. */
    bool alone, gated;
} fork_;

static void before(void)
{
    fork_.alone = __libc_single_threaded;
    if (fork_.alone)
        return;
    /* jemalloc's handler notes whether it had threads, too; the child has none, and is told so by that alone. */
    const bool threads = __atomic_load_n(&je_background_thread_enabled_state, __ATOMIC_RELAXED);
    const bool gated = !threads && gf_gate_close(); /* once the forks of other threads have happened */
    if (!gated)
        fork_.before();
    fork_.gated = gated;
}

static void in_parent(void)
{
    if (fork_.alone)
        return;
    if (fork_.gated)
        gf_gate_open();
    else
        fork_.parent();
}

static void in_child(void)
{
    if (fork_.alone)
        return;
    fork_.child();
    gf_gate_in_child();
    gf_settings_in_child();
}

int gf_heap_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    fork_.before = prepare;
    fork_.parent = parent;
    fork_.child = child;
    return pthread_atfork(before, in_parent, in_child);
}
