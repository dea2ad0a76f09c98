/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By default jemalloc takes all its locks before a fork and releases them afterwards, in parent and
 * child. The kernel then copies a page for every few locks. If the fork gate can be closed, it
 * ensures that no lock is held, and only the child initialises the locks.
 *
 * A process with one thread has no other lock holder. It forks without the gate and the locks, as
 * with glibc, which tests the same word. If its signal handler interrupts malloc and forks, the
 * fork does not deadlock, as it would on a lock.
 */
#include "preload/heap/fork.h"

#include "base/atomic.h"
#include "preload/heap/arenas.h"
#include "preload/heap/callouts/fork_gate.h"
#include "preload/heap/jemalloc/jemalloc.h"
#include "preload/heap/stream_list.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <string.h>
#include <sys/single_threaded.h>

static struct {
    void (*before)(void), (*parent)(void), (*child)(void);
} jemalloc;

/*
 * How this thread's fork excludes other threads. In a process with one thread this stays held_none
 * and is never written. While it has another value, no fork handler of the program runs: the heap's
 * handlers are registered first (on_fork.c), so they run last before a fork and first after it.
 */
static __thread enum { held_none, held_gate, held_locks } held;

/*
 * A thread that registers a handler holds libc's lock of the handler list, and may allocate while
 * it does. A fork takes that lock again after our handler, while the heap is closed to other
 * threads. So a fork first waits for registrations, and later registrations wait for the fork. They
 * wait at the gate or, if jemalloc's locks are taken instead, on this lock.
 *
 * All threads enter the gate before they take this lock, forks included. So the lock is free when
 * the gate is closed. Otherwise the child would inherit a locked lock, or the holder would wait at
 * the gate for a fork that waits for the holder.
 *
 * glibc before 2.36 holds its own lock while it runs handlers. Then no registration can overlap a
 * fork, and a registration that waited here would deadlock with the fork.
 */
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;
static __thread unsigned registration_depth; /* this thread holds the lock while it is not 0 */
static __thread bool fork_registering;       /* this thread's fork holds the lock */
static _Atomic bool handled; /* forks run our handlers, which release the lock in the child */

static bool handlers_run_unlocked(void)
{
    return strverscmp(gnu_get_libc_version(), "2.36") >= 0;
}

void gf_fork_registration_begin(void)
{
    if (gf_load_acquire(&handled) && handlers_run_unlocked() && registration_depth++ == 0) {
        gf_fork_gate_enter();
        pthread_mutex_lock(&registering);
    }
}

void gf_fork_registration_end(void)
{
    if (registration_depth > 0 && --registration_depth == 0) {
        pthread_mutex_unlock(&registering);
        gf_fork_gate_leave();
    }
}

/*
 * A signal handler that forks during a registration may deadlock, as it may without this library.
 */
static void take_locks(void)
{
    fork_registering = !registration_depth && handlers_run_unlocked();
    if (fork_registering) {
        gf_fork_gate_enter();
        pthread_mutex_lock(&registering);
    }
    jemalloc.before();
}

/* True if the fork held the lock and is therefore inside the gate. */
static bool release_registering(void)
{
    if (!fork_registering)
        return false;
    fork_registering = false;
    pthread_mutex_unlock(&registering);
    return true;
}

static void heap_before_fork(void)
{
    if (__libc_single_threaded)
        return;
    gf_stream_list_lock();
    /*
     * jemalloc's prepare handler also records whether background threads run. The child's handler
     * needs that record to reset them.
     */
    const bool threads = __atomic_load_n(&je_background_thread_enabled_state, __ATOMIC_RELAXED);
    held = !threads && !registration_depth && gf_fork_gate_close() ? held_gate : held_locks;
    if (held == held_locks)
        take_locks();
}

static void heap_in_parent(void)
{
    if (held == held_none)
        return;
    if (held == held_gate)
        gf_fork_gate_open();
    else
        jemalloc.parent();
    held = held_none;
    if (release_registering())
        gf_fork_gate_leave();
    gf_stream_list_unlock();
}

static void heap_in_child(void)
{
    if (held == held_none)
        return;
    jemalloc.child();
    gf_fork_gate_in_child();
    gf_arenas_in_child();
    held = held_none;
    release_registering();
    if (registration_depth >
        0) /* the end of the registration leaves the gate, which in_child reset */
        gf_fork_gate_enter();
    gf_stream_list_reset();
}

int gf_heap_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    jemalloc.before = prepare;
    jemalloc.parent = parent;
    jemalloc.child = child;
    const int error = pthread_atfork(heap_before_fork, heap_in_parent, heap_in_child);
    gf_store_release(&handled, error == 0);
    return error;
}

static struct {
    void (*prepare)(void), (*parent)(void), (*child)(void);
    void *object;
} early[8];
static unsigned early_count;

int gf_fork_keep_early(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                       void *object)
{
    if (early_count == GF_ARRAY_LEN(early))
        return ENOMEM;
    early[early_count].prepare = prepare;
    early[early_count].parent = parent;
    early[early_count].child = child;
    early[early_count++].object = object;
    return 0;
}

/*
 * libc exports it; no header declares it. Calls from here reach our own hook in on_fork.c, which
 * passes them on to libc.
 */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                      void *object);

void gf_fork_register_early(void)
{
    for (unsigned i = 0; i < early_count; i++)
        __register_atfork(early[i].prepare, early[i].parent, early[i].child, early[i].object);
}
