/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/fork_gate.h"

#include "base/atomic.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * A slot contains how often its thread has entered the gate without leaving it. Only that thread
 * writes to the slot. A thread that finds no free slot, or that is about to end, counts itself in a
 * stripe instead, which it shares with other threads. It looks for a slot again after a slot was
 * freed.
 */
#define SLOTS 512
#define STRIPES 64

static struct slot {
    _Alignas(64) _Atomic unsigned depth;
} slots[SLOTS];
static _Atomic uint64_t taken[SLOTS / 64]; /* bit set: a live thread owns the slot */
static _Atomic unsigned freed = 1;         /* how often slots were freed, plus 1 */
static struct stripe {
    _Alignas(64) _Atomic unsigned inside; /* number of threads inside that have no slot */
} stripes[STRIPES];
static _Atomic unsigned next_stripe;

static struct {
    _Alignas(64) _Atomic unsigned closed; /* 1 while a thread has closed the gate */
    _Atomic bool allowed;                 /* true: the gate may be closed */
} gate;

static __thread struct {
    struct slot *slot;
    struct stripe *stripe; /* of a thread that has entered without a slot */
    unsigned depth;        /* the depth of a thread without a slot */
    unsigned freed;        /* value of `freed` when the thread last looked for a slot */
    bool never;            /* true: the thread must not take a slot, or looks for one */
} here;

static struct slot *gate_slot(unsigned word, uint64_t bits)
{
    return &slots[word * 64 + (unsigned)__builtin_ctzll(bits)];
}

static GF_COLD void futex_wait(const _Atomic unsigned *word, unsigned value)
{
    const int error = errno;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL);
    errno = error;
}

static GF_COLD void futex_wake(const _Atomic unsigned *word)
{
    const int error = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX);
    errno = error;
}

static bool gate_closed(void)
{
    return gf_unlikely(gf_load_relaxed(&gate.closed));
}

/* Returns NULL if no slot is free. */
static struct slot *take_slot(void)
{
    for (unsigned word = 0; word < GF_ARRAY_LEN(taken); word++)
        for (uint64_t free; (free = ~gf_load_relaxed(&taken[word]));) {
            const uint64_t bit = free & -free;
            if (!(atomic_fetch_or_explicit(&taken[word], bit, memory_order_acquire) & bit))
                return gate_slot(word, bit);
        }
    return NULL;
}

/*
 * Called by a thread outside the gate. While `never` is set, a signal handler of this thread takes
 * no slot. A handler that ran before that may have taken one.
 */
static GF_COLD void choose_slot(void)
{
    here.never = true;
    atomic_signal_fence(memory_order_seq_cst);
    here.freed = gf_load_acquire(&freed);
    if (!here.slot)
        here.slot = take_slot();
    atomic_signal_fence(memory_order_seq_cst);
    here.never = false;
}

/* The stripes are given out in turn, so that threads share one as late as possible. */
static _Atomic unsigned *own_stripe(void)
{
    if (gf_unlikely(!here.stripe))
        here.stripe = &stripes[gf_add_relaxed(&next_stripe, 1) % STRIPES];
    return &here.stripe->inside;
}

/*
 * A Dekker-style handshake. A thread that enters stores its depth, then loads `closed`. A thread
 * that closes the gate stores `closed`, then loads all depths. At least one of the two threads sees
 * the other's store. The entering thread needs no fence, because the closing thread's membarrier
 * orders its store and load.
 *
 * If a signal handler interrupts the thread after the store and calls malloc, the handler enters
 * without waiting, as a nested call. Otherwise the handler would wait for a fork that waits for the
 * interrupted thread. As a consequence, the handler may change the heap during that fork. With
 * jemalloc's own fork handlers, such a signal handler would deadlock.
 */
static void set_depth(struct slot *slot, unsigned depth)
{
    gf_store_release(&slot->depth, depth);
    atomic_signal_fence(memory_order_seq_cst);
}

static void leave_slot(struct slot *slot)
{
    const unsigned depth = gf_load_relaxed(&slot->depth) - 1;

    set_depth(slot, depth);
    if (gate_closed() && depth == 0)
        futex_wake(&slot->depth);
}

/*
 * `depth` falls last. If a signal handler interrupts the thread before that and calls malloc, the
 * handler enters as a nested call, and neither waits nor takes a slot.
 */
static GF_COLD void leave_stripe(void)
{
    _Atomic unsigned *const inside = own_stripe();

    if (gf_sub_seq_cst(inside, 1) == 1 && gate_closed())
        futex_wake(inside);
    atomic_signal_fence(memory_order_seq_cst);
    here.depth--;
}

static inline void leave_gate(void)
{
    if (gf_likely(here.slot))
        leave_slot(here.slot);
    else
        leave_stripe();
}

/*
 * Once `depth` is 1, signal handlers of this thread take no slot. If one took a slot before that,
 * this thread must use the slot, so it does not enter here, and tries again. Nested calls are
 * counted, too: a handler may run between the store of `depth` and the count of the interrupted
 * call.
 */
static GF_COLD bool try_enter_stripe(void)
{
    const bool nested = here.depth > 0;

    if (!nested && gate_closed())
        return false;
    here.depth++;
    atomic_signal_fence(memory_order_seq_cst);
    if (gf_unlikely(!nested && here.slot)) {
        here.depth--;
        return false;
    }
    gf_add_seq_cst(own_stripe(), 1);
    if (nested || !gate_closed())
        return true;
    leave_stripe();
    return false;
}

static inline bool try_enter_gate(void)
{
    struct slot *slot = here.slot;

    if (gf_unlikely(!slot)) {
        if (here.freed != gf_load_relaxed(&freed) && !here.never && here.depth == 0)
            choose_slot();
        if (!(slot = here.slot))
            return try_enter_stripe();
    }
    const unsigned depth = gf_load_relaxed(&slot->depth);
    if (gf_unlikely(depth > 0)) {
        set_depth(slot, depth + 1);
        return true;
    }
    if (gate_closed())
        return false;
    set_depth(slot, 1);
    if (!gate_closed())
        return true;
    leave_slot(slot);
    return false;
}

/*
 * Wakes the closing thread first, because the closing thread may sleep until this thread's depth is
 * 0. This code may run in a signal handler that interrupted this thread after it had stored depth
 *   0, and before its futex_wake. Then the closing thread has not been woken yet.
 */
static GF_COLD void await_open(void)
{
    futex_wake(here.slot ? &here.slot->depth : own_stripe());
    futex_wait(&gate.closed, 1);
}

static inline void enter_gate(void)
{
    while (gf_unlikely(!try_enter_gate()))
        await_open();
}

int gf_heap_mutex_lock(pthread_mutex_t *mutex)
{
    enter_gate();
    return pthread_mutex_lock(mutex);
}

int gf_heap_mutex_trylock(pthread_mutex_t *mutex)
{
    if (gf_unlikely(!try_enter_gate()))
        return EBUSY;
    const int error = pthread_mutex_trylock(mutex);
    if (gf_unlikely(error))
        leave_gate();
    return error;
}

int gf_heap_mutex_unlock(pthread_mutex_t *mutex)
{
    const int error = pthread_mutex_unlock(mutex);
    leave_gate();
    return error;
}

/*
 * Enters the gate after a condition wait, which has returned with the mutex locked. A thread inside
 * the gate may need the mutex, and the thread that closes the gate waits for the thread inside. So
 * the mutex is released before this thread waits at the gate.
 */
static void reenter(pthread_mutex_t *mutex)
{
    if (gf_likely(try_enter_gate()))
        return;
    pthread_mutex_unlock(mutex);
    enter_gate();
    pthread_mutex_lock(mutex);
}

int gf_heap_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    leave_gate();
    const int error = pthread_cond_wait(cond, mutex);
    reenter(mutex);
    return error;
}

int gf_heap_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                           const struct timespec *until)
{
    leave_gate();
    const int error = pthread_cond_timedwait(cond, mutex, until);
    reenter(mutex);
    return error;
}

static bool membarrier(int command)
{
    const int error = errno;
    const bool done = syscall(SYS_membarrier, command, 0, 0) == 0;
    errno = error;
    return done;
}

void gf_fork_gate_allow(void)
{
    if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
        gf_store_release(&gate.allowed, true);
}

static void await_empty(const _Atomic unsigned *inside)
{
    for (unsigned value; (value = gf_load_seq_cst(inside));)
        futex_wait(inside, value);
}

static void open_for_all(void)
{
    gf_store_seq_cst(&gate.closed, 0);
    futex_wake(&gate.closed);
}

/*
 * Changes the calling thread's depth. Does not change its stripe, because a thread that closes the
 * gate waits until all stripes are 0.
 */
static void count_myself(int by)
{
    if (here.slot)
        gf_store_relaxed(&here.slot->depth, gf_load_relaxed(&here.slot->depth) + (unsigned)by);
    else
        here.depth += (unsigned)by;
}

bool gf_fork_gate_close(void)
{
    if (!gf_load_acquire(&gate.allowed))
        return false;
    while (gf_exchange_seq_cst(&gate.closed, 1))
        await_open();
    if (!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        open_for_all();
        return false;
    }
    for (unsigned word = 0; word < GF_ARRAY_LEN(taken); word++)
        for (uint64_t bits = gf_load_seq_cst(&taken[word]); bits; bits &= bits - 1)
            await_empty(&gate_slot(word, bits)->depth);
    for (unsigned i = 0; i < STRIPES; i++)
        await_empty(&stripes[i].inside);
    count_myself(1);
    return true;
}

void gf_fork_gate_enter(void)
{
    enter_gate();
}

void gf_fork_gate_leave(void)
{
    leave_gate();
}

bool gf_fork_gate_inside(void)
{
    return (here.slot ? gf_load_relaxed(&here.slot->depth) : here.depth) > 0;
}

void gf_fork_gate_open(void)
{
    count_myself(-1);
    open_for_all();
}

/*
 * Stores only if the value is not 0, because in a forked child each store may copy a page.
 */
static void clear_word(_Atomic unsigned *word)
{
    if (gf_load_relaxed(word) > 0)
        gf_store_relaxed(word, 0);
}

void gf_fork_gate_in_child(void)
{
    for (unsigned word = 0; word < GF_ARRAY_LEN(taken); word++)
        for (uint64_t bits = gf_load_seq_cst(&taken[word]); bits; bits &= bits - 1) {
            struct slot *slot = gate_slot(word, bits);
            if (slot == here.slot)
                continue;
            clear_word(&slot->depth);
            atomic_fetch_and_explicit(&taken[word], ~(bits & -bits), memory_order_relaxed);
        }
    if (here.slot)
        gf_store_relaxed(&here.slot->depth, 0);
    here.depth = 0;
    for (unsigned i = 0; i < STRIPES; i++)
        clear_word(&stripes[i].inside);
    gf_add_release(&freed, 1);
    open_for_all();
}

void gf_fork_gate_forget(void)
{
    struct slot *slot = here.slot;

    if (slot && gf_load_relaxed(&slot->depth) > 0)
        return;
    here.never = true;
    if (!slot)
        return;
    here.slot = NULL;
    atomic_fetch_and_explicit(&taken[(slot - slots) / 64], ~(UINT64_C(1) << (slot - slots) % 64),
                              memory_order_release);
    gf_add_release(&freed, 1);
}

void gf_fork_gate_use_slot(bool possible)
{
    if (!here.slot)
        here.never = !possible;
}

/*
 * Wraps (jemalloc.syms) one of the last functions that jemalloc's destructor calls for a thread
 * that ends.
 */
void __real_je_witnesses_cleanup(void *tsd);
void __wrap_je_witnesses_cleanup(void *tsd);

void __wrap_je_witnesses_cleanup(void *tsd)
{
    __real_je_witnesses_cleanup(tsd);
    gf_fork_gate_forget();
}
