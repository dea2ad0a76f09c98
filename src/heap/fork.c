/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc takes each of its locks before a fork and gives them back behind it, in parent and child: a
 * page that is copied for every few of them. A process with one thread has nobody who could hold one, so
 * it forks as under glibc, which goes by the same word. A signal handler that forks in the midst of a
 * malloc would wait there for ever, and does not.
 */
#include "heap/jemalloc.h"
#include "heap/settings.h"

#include <pthread.h>
#include <sys/single_threaded.h>

static struct {
    void (*before)(void), (*parent)(void), (*child)(void);
    bool alone; /* by the only thread, between the calls for one fork */
} fork_;

static void before(void)
{
    fork_.alone = __libc_single_threaded;
    if (!fork_.alone)
        fork_.before();
}

static void in_parent(void)
{
    if (!fork_.alone)
        fork_.parent();
}

static void in_child(void)
{
    if (fork_.alone)
        return;
    fork_.child();
    gf_settings_in_child();
}

int gf_heap_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    fork_.before = prepare;
    fork_.parent = parent;
    fork_.child = child;
    return pthread_atfork(before, in_parent, in_child);
}
