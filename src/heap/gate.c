/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/gate.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * How deep a thread is inside, written by that thread alone. Those beyond so many threads, and those that have nearly
 * ended, count themselves in a word that is everybody's.
 */
#define SLOTS 512

static struct slot {
    _Alignas(64) unsigned depth;
} slots[SLOTS];
static uint64_t taken[SLOTS / 64]; /* by a thread that lives */
static unsigned others;            /* threads inside that have no slot */
static unsigned closed;            /* 1: by somebody */
static bool allowed;               /* to close it */

static __thread struct {
    struct slot *slot;
    unsigned depth; /* of a thread without */
    bool never;     /* shall get no slot */
} here;

static struct slot *slot_of(unsigned word, uint64_t bits)
{
    return &slots[word * 64 + (unsigned)__builtin_ctzll(bits)];
}

static GF_COLD void sleep_on(const unsigned *word, unsigned value)
{
    const int error = errno;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL);
    errno = error;
}

static GF_COLD void wake(const unsigned *word)
{
    const int error = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX);
    errno = error;
}

static bool is_closed(void)
{
    return gf_unlikely(__atomic_load_n(&closed, __ATOMIC_RELAXED));
}

static GF_COLD void choose_slot(void)
{
    here.never = true;
    for (unsigned word = 0; word < GF_ARRAY_LEN(taken); word++)
        for (uint64_t free; (free = ~__atomic_load_n(&taken[word], __ATOMIC_RELAXED));) {
            const uint64_t bit = free & -free;
            if (__atomic_fetch_or(&taken[word], bit, __ATOMIC_ACQUIRE) & bit)
                continue; /* somebody else's by now */
            here.never = false;
            here.slot = slot_of(word, bit);
            return;
        }
}

/*
 * Who passes writes and then looks, who closes writes and then looks too, so one of them sees the other: the
 * processor may let the look go before the store only until the closer's membarrier has interrupted it. A signal handler
 * that comes behind the store and calls malloc passes as within a lock: else it would wait for a fork that waits for
 * what it interrupted. (It may then change the heap during that fork; without the gate it would wait for a lock for ever.)
 */
static void set_depth(struct slot *slot, unsigned depth)
{
    __atomic_store_n(&slot->depth, depth, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static void leave_slot(struct slot *slot)
{
    set_depth(slot, slot->depth - 1);
    if (is_closed() && slot->depth == 0)
        wake(&slot->depth);
}

static GF_COLD void leave_others(void)
{
    if (--here.depth == 0 && __atomic_sub_fetch(&others, 1, __ATOMIC_SEQ_CST) == 0 && is_closed())
        wake(&others);
}

static void leave(void)
{
    if (gf_likely(here.slot))
        leave_slot(here.slot);
    else
        leave_others();
}

static GF_COLD bool pass_others(void)
{
    if (here.depth == 0 && is_closed())
        return false;
    if (here.depth++ > 0)
        return true;
    __atomic_add_fetch(&others, 1, __ATOMIC_SEQ_CST);
    if (!is_closed())
        return true;
    leave_others();
    return false;
}

static bool pass(void)
{
    struct slot *slot = here.slot;

    if (gf_unlikely(!slot)) {
        if (!here.never && here.depth == 0)
            choose_slot();
        if (!(slot = here.slot))
            return pass_others();
    }
    if (slot->depth == 0 && is_closed())
        return false;
    set_depth(slot, slot->depth + 1);
    if (slot->depth > 1 || !is_closed())
        return true;
    leave_slot(slot);
    return false;
}

/* Who closed it may wait for this very thread, if a signal handler came between its last store and its call of wake. */
static GF_COLD void await_opening(void)
{
    wake(here.slot ? &here.slot->depth : &others);
    sleep_on(&closed, 1);
}

static void enter(void)
{
    while (gf_unlikely(!pass()))
        await_opening();
}

int gf_heap_mutex_lock(pthread_mutex_t *mutex)
{
    enter();
    return pthread_mutex_lock(mutex);
}

int gf_heap_mutex_trylock(pthread_mutex_t *mutex)
{
    if (gf_unlikely(!pass()))
        return EBUSY;
    const int error = pthread_mutex_trylock(mutex);
    if (gf_unlikely(error))
        leave();
    return error;
}

int gf_heap_mutex_unlock(pthread_mutex_t *mutex)
{
    const int error = pthread_mutex_unlock(mutex);
    leave();
    return error;
}

/* With the lock that the wait has come back with. It must not be kept from who is inside: a fork waits for them. */
static void come_back(pthread_mutex_t *mutex)
{
    if (gf_likely(pass()))
        return;
    pthread_mutex_unlock(mutex);
    enter();
    pthread_mutex_lock(mutex);
}

int gf_heap_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    leave();
    const int error = pthread_cond_wait(cond, mutex);
    come_back(mutex);
    return error;
}

int gf_heap_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
    leave();
    const int error = pthread_cond_timedwait(cond, mutex, until);
    come_back(mutex);
    return error;
}

static bool barrier(int command)
{
    const int error = errno;
    const bool done = syscall(SYS_membarrier, command, 0, 0) == 0;
    errno = error;
    return done;
}

void gf_gate_allow(void)
{
    if (barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
        __atomic_store_n(&allowed, true, __ATOMIC_RELEASE);
}

static void wait_for(const unsigned *inside)
{
    for (unsigned value; (value = __atomic_load_n(inside, __ATOMIC_SEQ_CST));)
        sleep_on(inside, value);
}

static void open_for_all(void)
{
    __atomic_store_n(&closed, 0, __ATOMIC_SEQ_CST);
    wake(&closed);
}

static void count_myself(int by)
{
    if (here.slot)
        here.slot->depth += (unsigned)by;
    else
        here.depth += (unsigned)by; /* not among the others: they are waited for */
}

bool gf_gate_close(void)
{
    if (!__atomic_load_n(&allowed, __ATOMIC_ACQUIRE))
        return false;
    while (__atomic_exchange_n(&closed, 1, __ATOMIC_SEQ_CST))
        await_opening();
    if (!barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        open_for_all();
        return false;
    }
    for (unsigned word = 0; word < GF_ARRAY_LEN(taken); word++)
        for (uint64_t bits = __atomic_load_n(&taken[word], __ATOMIC_SEQ_CST); bits; bits &= bits - 1)
            wait_for(&slot_of(word, bits)->depth);
    wait_for(&others);
    count_myself(1);
    return true;
}

void gf_gate_enter(void)
{
    enter();
}

void gf_gate_leave(void)
{
    leave();
}

void gf_gate_open(void)
{
    count_myself(-1);
    open_for_all();
}

void gf_gate_in_child(void)
{
    for (unsigned word = 0; word < GF_ARRAY_LEN(taken); word++)
        for (uint64_t bits = __atomic_load_n(&taken[word], __ATOMIC_SEQ_CST); bits; bits &= bits - 1) {
            struct slot *slot = slot_of(word, bits);
            if (slot == here.slot)
                continue;
            if (slot->depth > 0) /* else its page need not be copied */
                slot->depth = 0;
            __atomic_fetch_and(&taken[word], ~(bits & -bits), __ATOMIC_RELAXED);
        }
    if (here.slot)
        here.slot->depth = 0;
    here.depth = others = 0;
    open_for_all();
}

/* jemalloc's, linked with --wrap: nearly the last that is done for a thread that ends, by a key's destructor. */
void __real_je_witnesses_cleanup(void *tsd);
void __wrap_je_witnesses_cleanup(void *tsd);

void __wrap_je_witnesses_cleanup(void *tsd)
{
    __real_je_witnesses_cleanup(tsd);
    gf_gate_forget();
}

void gf_gate_forget(void)
{
    struct slot *slot = here.slot;

    if (!slot || slot->depth > 0)
        return;
    here.never = true;
    here.slot = NULL;
    __atomic_fetch_and(&taken[(slot - slots) / 64], ~(UINT64_C(1) << (slot - slots) % 64), __ATOMIC_RELEASE);
}
