/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fork locks: libc's list of open FILEs, registrations of fork handlers, and jemalloc.
 *
 * libc's fork takes the lock of its list of FILEs after it has run all fork handlers. The holder of
 * the lock, such as fflush(NULL), may wait for a FILE that another thread has locked while that
 * thread is in malloc. To avoid a deadlock, a fork takes this lock before it takes jemalloc's locks.
 * glibc's fork does the same before it locks glibc's malloc.
 *
 * The lock is recursive: libc takes it again during the fork. These functions do not allocate. If
 * libc does not export the lock, they do nothing.
 */
#include "preload/heap/fork.h"

#include "base/atomic.h"
#include "base/loader.h"
#include "preload/heap/arenas.h"
#include "preload/heap/mappings.h"
#include "preload/heap/reclaim.h"

#include <gnu/libc-version.h>
#include <pthread.h>
#include <sys/single_threaded.h>

typedef void lock_fn(void);

/*
 * glibc exports these functions, but no header declares them. Threads that search at the same time
 * store the same addresses.
 */
static lock_fn *_Atomic lock, *_Atomic unlock, *_Atomic reset;
static _Atomic bool searched;

static GF_COLD void search(void)
{
    lock_fn *const take = (lock_fn *)gf_libc_function("_IO_list_lock");
    lock_fn *const release = (lock_fn *)gf_libc_function("_IO_list_unlock");
    lock_fn *const renew = (lock_fn *)gf_libc_function("_IO_list_resetlock");

    if (take && release && renew) {
        gf_store_relaxed(&lock, take);
        gf_store_relaxed(&unlock, release);
        gf_store_relaxed(&reset, renew);
    }
    gf_store_release(&searched, true);
}

static void call(lock_fn *function)
{
    if (function)
        function();
}

/* Called before the fork, by a thread that holds no lock of the heap. */
static void lock_stream_list(void)
{
    if (gf_unlikely(!gf_load_acquire(&searched)))
        search();
    call(gf_load_relaxed(&lock));
}

/*
 * jemalloc takes all its locks before a fork. Afterwards the parent releases them, and the child
 * initializes them.
 *
 * A process with one thread forks without locks, as with glibc. So a fork in a signal handler that
 * interrupted malloc does not deadlock.
 */

static struct {
    void (*before)(void), (*parent)(void), (*child)(void);
} jemalloc;

/*
 * True while this thread's fork holds jemalloc's locks. A process with one thread never writes this
 * variable. The heap's handlers are registered first (on_process.c), so they run last before a
 * fork, and first after it. So no fork handler of the program runs while `held` is true.
 */
static __thread bool held;

static __thread unsigned
    locks_before; /* gf_locks before this thread's fork took jemalloc's locks */

int gf_heap_mutex_lock(pthread_mutex_t *mutex)
{
    gf_locks++;
    return pthread_mutex_lock(mutex);
}

int gf_heap_mutex_trylock(pthread_mutex_t *mutex)
{
    gf_locks++;
    const int error = pthread_mutex_trylock(mutex);
    if (error)
        gf_locks--;
    return error;
}

int gf_heap_mutex_unlock(pthread_mutex_t *mutex)
{
    const int error = pthread_mutex_unlock(mutex);
    gf_locks--;
    return error;
}

/*
 * A thread that registers a fork handler holds libc's lock of the handler list, and may allocate
 * while it holds that lock. A fork takes libc's lock again after our handler has run, while the
 * heap is closed to other threads. To avoid a deadlock, a fork takes the lock `registering` before
 * jemalloc's locks, so it first waits for registrations in progress, and registrations that begin
 * later wait for the fork.
 *
 * glibc before 2.36 holds its lock while it runs handlers, so no registration overlaps a fork. With
 * such a glibc, `registering` is not used, because it would deadlock with libc's lock.
 */
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;
static __thread unsigned registration_depth; /* nonzero: this thread holds `registering` */
static __thread bool fork_registering;       /* this thread's fork holds `registering` */
/* True once our fork handlers are registered, which release `registering` in the child. */
static _Atomic bool handled;

static bool handlers_run_unlocked(void)
{
    return strverscmp(gnu_get_libc_version(), "2.36") >= 0;
}

void gf_fork_registration_begin(void)
{
    if (gf_load_acquire(&handled) && handlers_run_unlocked() && registration_depth++ == 0)
        pthread_mutex_lock(&registering);
}

void gf_fork_registration_end(void)
{
    if (registration_depth > 0 && --registration_depth == 0)
        pthread_mutex_unlock(&registering);
}

/*
 * Takes all locks for a fork. A fork in a signal handler that interrupted a registration may
 * deadlock, as it may without the library.
 */
static void take_locks(void)
{
    fork_registering = !registration_depth && handlers_run_unlocked();
    if (fork_registering)
        pthread_mutex_lock(&registering);
    locks_before = gf_locks;
    jemalloc.before();
    held = true;
}

static void release_registering(void)
{
    held = false;
    if (fork_registering)
        pthread_mutex_unlock(&registering);
    fork_registering = false;
}

static void heap_before_fork(void)
{
    if (__libc_single_threaded)
        return;
    lock_stream_list();
    take_locks();
}

static void heap_in_parent(void)
{
    if (!held)
        return;
    jemalloc.parent();
    release_registering();
    call(gf_load_relaxed(&unlock));
}

/* Undoes heap_before_fork of a process with several threads. */
static void release_locks_in_child(void)
{
    jemalloc.child();
    gf_locks = locks_before;
    gf_arenas_in_child();
    release_registering();
    /*
     * Unlocking would be wrong. If the process had several threads, libc has already initialized
     * the lock, and unlocking a free lock would leave it held forever.
     */
    call(gf_load_relaxed(&reset));
}

static void heap_in_child(void)
{
    if (held)
        release_locks_in_child();
    gf_reclaim_in_child();
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
 * libc exports this function, but no header declares it. The calls below reach our hook in
 * on_process.c, which passes them to libc.
 */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                      void *object);

void gf_fork_register_early(void)
{
    for (unsigned i = 0; i < early_count; i++)
        __register_atfork(early[i].prepare, early[i].parent, early[i].child, early[i].object);
}
