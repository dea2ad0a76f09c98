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

enum way { way_none, way_alone, way_gated, way_locked };

/*
 * way: of the fork that is going on; none also where that began before these handlers were registered. Written only by
 * who forks alone, has closed the gate or holds each lock.
 */
static struct {
    void (*before)(void), (*parent)(void), (*child)(void);
    enum way way;
} fork_;

static enum way take_way(void)
{
    const enum way way = fork_.way;
    fork_.way = way_none;
    return way;
}

static void before(void)
{
    if (__libc_single_threaded) {
        fork_.way = way_alone;
        return;
    }
    /* jemalloc's handler notes whether it had threads, too; the child has none, and is told so by that alone. */
    const bool threads = __atomic_load_n(&je_background_thread_enabled_state, __ATOMIC_RELAXED);
    if (!threads && gf_gate_close()) {
        fork_.way = way_gated;
        return;
    }
    fork_.before();
    gf_gate_hold_all(true);
    fork_.way = way_locked;
}

static void in_parent(void)
{
    const enum way way = take_way();
    if (way == way_gated) {
        gf_gate_open();
    } else if (way == way_locked) {
        gf_gate_hold_all(false);
        fork_.parent();
    }
}

static void in_child(void)
{
    const enum way way = take_way();
    if (way != way_gated && way != way_locked)
        return;
    if (way == way_locked)
        gf_gate_hold_all(false);
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
