/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/attach/threads.h"

#include "base/atomic.h"
#include "os/own_table.h"
#include "preload/attach/counters.h"
#include "preload/attach/originals.h"
#include "preload/heap/arenas.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#define ENTRIES 4096 /* a power of two */
#define WINDOW 32    /* number of entries that a look-up of an id tries */

struct entry {
    _Atomic uint64_t key;    /* thread id << 8 | class; 0: free */
    _Atomic uint64_t before; /* digest of the mask before the first change; 0 if unchanged */
};

static struct entry entries[ENTRIES];
static _Atomic bool used, overflowed;

static uint64_t make_key(pid_t tid, enum gf_thread_class kind)
{
    return (uint64_t)(uint32_t)tid << 8 | (uint64_t)kind;
}

static pid_t key_tid(uint64_t key)
{
    return (pid_t)(key >> 8);
}

static enum gf_thread_class key_class(uint64_t key)
{
    return (enum gf_thread_class)(key & 0xff);
}

static struct entry *entry_at(pid_t tid, unsigned step)
{
    const uint32_t home = (uint32_t)tid * UINT32_C(2654435761) >> 20;
    return &entries[(home + step) % ENTRIES];
}

static uint64_t mask_digest(const struct gf_cpus *mask)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < GF_ARRAY_LEN(mask->word); i++) {
        hash ^= mask->word[i];
        hash *= UINT64_C(0x100000001b3);
        hash ^= hash >> 29;
    }
    return hash | 1;
}

static struct entry *find_entry(pid_t tid)
{
    for (unsigned step = 0; step < WINDOW; step++) {
        struct entry *entry = entry_at(tid, step);
        const uint64_t key = gf_load_acquire(&entry->key);
        if (key && key_tid(key) == tid)
            return entry;
    }
    return NULL;
}

static bool is_gone(pid_t tid)
{
    gf_keep_errno();
    return sched_getscheduler(tid) < 0 && errno == ESRCH;
}

/*
 * Takes a free entry, or the entry of a thread that has ended. Returns NULL if the table overflows.
 */
static struct entry *claim_entry(pid_t tid, enum gf_thread_class class)
{
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned step = 0; step < WINDOW; step++) {
            struct entry *entry = entry_at(tid, step);
            uint64_t key = gf_load_relaxed(&entry->key);
            if (key && (pass == 0 || !is_gone(key_tid(key))))
                continue;
            if (gf_cas_acq_rel(&entry->key, &key, make_key(tid, class))) {
                gf_store_release(&entry->before, 0);
                return entry;
            }
        }
    }
    gf_store_relaxed(&overflowed, true);
    return NULL;
}

enum gf_thread_class gf_thread_class_get(pid_t tid)
{
    struct entry *entry = find_entry(tid);
    const uint64_t key = entry ? gf_load_relaxed(&entry->key) : 0;
    if (key && key_tid(key) == tid)
        return key_class(key);
    return gf_load_relaxed(&overflowed) ? gf_thread_self_set : gf_thread_program;
}

/*
 * Records the class of a new thread. If the class is gf_thread_program, removes the entry that an
 * ended thread with the same id may have left.
 */
static void gf_thread_class_set(pid_t tid, enum gf_thread_class class)
{
    struct entry *entry = find_entry(tid);
    if (class == gf_thread_program) {
        if (entry)
            gf_store_release(&entry->key, 0);
        return;
    }
    gf_store_relaxed(&used, true);
    if (entry) {
        gf_store_relaxed(&entry->before, 0);
        gf_store_release(&entry->key, make_key(tid, class));
    } else {
        claim_entry(tid, class);
    }
}

bool gf_thread_class_used(void)
{
    return gf_load_relaxed(&used);
}

void gf_thread_class_affinity(pid_t tid, const struct gf_cpus *before, const struct gf_cpus *after)
{
    struct entry *entry = find_entry(tid);
    if (!entry) {
        gf_store_relaxed(&used, true);
        entry = claim_entry(tid, gf_thread_self_set);
        if (entry)
            gf_store_release(&entry->before, mask_digest(before));
        return;
    }
    const uint64_t first = gf_load_acquire(&entry->before);
    if (key_class(gf_load_relaxed(&entry->key)) == gf_thread_self_set && first &&
        first == mask_digest(after))
        gf_store_release(&entry->key, 0);
}

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

static int create_own(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    return gf_thread_start(ret, attr, run, arg, gf_thread_ours, NULL);
}

int gf_thread_start_own(void *(*run)(void *), void *arg)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = gf_detached_start_by(create_own, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
