/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc would take each of its locks before a fork and give them back behind it, in parent and child: a
 * page that is copied for every few of them. Where the gate can be closed, it sees to it that none is held, and
 * the child alone makes them anew. A process with one thread has nobody who could hold one, so it forks as
 * under glibc, which goes by the same word. A signal handler of its that forks in the midst of a malloc would wait for
 * ever, and does not.
 */
#include "heap/gate.h"
#include "heap/heap.h"
#include "heap/jemalloc.h"
#include "heap/settings.h"

#include <gnu/libc-version.h>
#include <pthread.h>
#include <string.h>
#include <sys/single_threaded.h>

static struct {
    void (*before)(void), (*parent)(void), (*child)(void);
} jemalloc;

/*
 * What this thread's fork keeps others out by; nothing, not even written to, where it is the only one. None of the
 * program's handlers runs between these: on_fork.c has them registered before any of its.
 */
static __thread enum { nothing, gate, locks } held;

/*
 * Who registers a handler holds libc's lock of them, and may allocate meanwhile; a fork takes that lock once more behind
 * our handler, which keeps everybody else out of the heap. So it waits first until nobody registers, and who begins to
 * waits until it is over: at the gate, which a fork need not write to anew, or by a lock where there are jemalloc's to
 * be taken. All pass the gate first, forks too, so that nobody has the lock when it is closed: a child would never get it,
 * and whoever has it would wait for an opening that waits for who waits for it. glibc before 2.36 holds its lock
 * while handlers run: nobody registers beside them, and who wants to would never come out here.
 */
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;
static __thread unsigned registers; /* how deep this thread is in it: it has the lock */
static __thread bool keeps_out;     /* this thread's fork has it */
static bool handled;                /* forks come by our handlers, which a child needs to get the lock back */

static bool handlers_run_unlocked(void)
{
    return strverscmp(gnu_get_libc_version(), "2.36") >= 0;
}

void gf_heap_registers(void)
{
    if (__atomic_load_n(&handled, __ATOMIC_ACQUIRE) && handlers_run_unlocked() && registers++ == 0) {
        gf_gate_enter();
        pthread_mutex_lock(&registering);
    }
}

void gf_heap_registered(void)
{
    if (registers > 0 && --registers == 0) {
        pthread_mutex_unlock(&registering);
        gf_gate_leave();
    }
}

/* A signal handler that forks in the midst of it has to take its chance, as natively. */
static void take_locks(void)
{
    keeps_out = !registers && handlers_run_unlocked();
    if (keeps_out) {
        gf_gate_enter();
        pthread_mutex_lock(&registering);
    }
    jemalloc.before();
}

static bool let_in(void)
{
    if (!keeps_out)
        return false;
    keeps_out = false;
    pthread_mutex_unlock(&registering);
    return true;
}

static void before(void)
{
    if (__libc_single_threaded)
        return;
    /* jemalloc's handler notes whether it had threads, too; the child has none, and is told so by that alone. */
    const bool threads = __atomic_load_n(&je_background_thread_enabled_state, __ATOMIC_RELAXED);
    held = !threads && !registers && gf_gate_close() ? gate : locks;
    if (held == locks)
        take_locks();
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
    if (let_in())
        gf_gate_leave();
}

static void in_child(void)
{
    if (held == nothing)
        return;
    jemalloc.child();
    gf_gate_in_child();
    gf_settings_in_child();
    held = nothing;
    let_in();
    if (registers > 0)
        gf_gate_enter(); /* nobody is inside: whom its signal handler interrupted comes out */
}

int gf_heap_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    jemalloc.before = prepare;
    jemalloc.parent = parent;
    jemalloc.child = child;
    const int error = pthread_atfork(before, in_parent, in_child);
    __atomic_store_n(&handled, error == 0, __ATOMIC_RELEASE);
    return error;
}
