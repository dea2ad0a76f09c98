/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/system.h"

#include "heap/huge.h"
#include "heap/keep.h"
#include "heap/ranges.h"
#include "heap/slow.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct gf_ranges ranges;
static struct {
    int policy; /* 0: none */
    struct gf_nodes nodes;
} wanted;

static uint64_t refused;
static int refused_errno;
static uint64_t lent, given_back;

/*
 * Held for a few instructions, never across a system call; a fork takes it too. Who waits sleeps:
 * a thread of real-time priority that yields in a loop keeps the holder from the CPU.
 */
enum { lock_free, lock_held, lock_wanted };
static unsigned lock_state;

static GF_COLD void wait_for_lock(void)
{
    const int error = errno;

    while (__atomic_exchange_n(&lock_state, lock_wanted, __ATOMIC_ACQUIRE) != lock_free)
        syscall(SYS_futex, &lock_state, FUTEX_WAIT_PRIVATE, lock_wanted, NULL);
    errno = error;
}

static void lock(void)
{
    unsigned expected = lock_free;

    if (gf_unlikely(!__atomic_compare_exchange_n(&lock_state, &expected, lock_held, false,
                                                 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
        wait_for_lock();
}

static void unlock(void)
{
    if (gf_unlikely(__atomic_exchange_n(&lock_state, lock_free, __ATOMIC_RELEASE) == lock_wanted))
        syscall(SYS_futex, &lock_state, FUTEX_WAKE_PRIVATE, 1);
}

/* The only thread needs no lock, and each word that is written behind the fork is a page copied. */
static __thread bool forks; /* this thread, with the lock */

static void before_fork(void)
{
    if (__libc_single_threaded)
        return;
    lock();
    forks = true;
}

static void after_fork(void)
{
    if (!forks)
        return;
    forks = false;
    unlock();
}

void gf_system_init(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

bool gf_system_has_room(size_t size)
{
    const int error = errno;
    const long mapped = syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);

    if (mapped != -1)
        syscall(SYS_munmap, mapped, size);
    errno = error;
    return mapped != -1;
}

static void apply_policy(void *address, size_t size)
{
    struct gf_nodes nodes;

    if (gf_likely(__atomic_load_n(&wanted.policy, __ATOMIC_RELAXED) == 0))
        return;
    lock();
    const int policy = wanted.policy;
    nodes = wanted.nodes;
    unlock();
    if (policy == 0)
        return;
    /* The kernel takes one bit less than it is told. */
    if (syscall(SYS_mbind, address, size, policy, nodes.word, GF_NODES_MAX + 1UL, 0UL) != 0) {
        __atomic_store_n(&refused_errno, errno, __ATOMIC_RELAXED);
        __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
    }
}

void *gf_heap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    const int error = errno;
    const struct gf_slow_mark mark = gf_slow_begin(gf_slow_map);
    const long mapped = syscall(SYS_mmap, address, size, protection, flags, fd, offset);

    if (mapped != -1) {
        lock();
        gf_ranges_add(&ranges, (uintptr_t)mapped, size);
        unlock();
        apply_policy((void *)mapped, size);
        gf_huge_mapped((void *)mapped, size, protection);
        gf_keep_grown();
    }
    gf_slow_end(&mark, gf_slow_map, size);
    errno = error;
    return (void *)mapped;
}

int gf_heap_munmap(void *address, size_t size)
{
    const int error = errno;
    const struct gf_slow_mark mark = gf_slow_begin(gf_slow_unmap);

    /* Before the call: afterwards the addresses may be somebody else's already. */
    lock();
    gf_ranges_remove(&ranges, (uintptr_t)address, size);
    unlock();
    const int result = (int)syscall(SYS_munmap, address, size);
    if (result == 0) {
        __atomic_fetch_add(&given_back, size, __ATOMIC_RELAXED);
    } else {
        lock();
        gf_ranges_add(&ranges, (uintptr_t)address, size);
        unlock();
    }
    gf_slow_end(&mark, gf_slow_unmap, size);
    errno = error;
    return result;
}

int gf_heap_madvise(void *address, size_t size, int advice)
{
    const int error = errno;
    const bool purges = advice == MADV_DONTNEED || advice == MADV_FREE;
    const enum gf_slow_part part = purges ? gf_slow_purge : gf_slow_map;
    const struct gf_slow_mark mark = gf_slow_begin(part);
    const int result = (int)syscall(SYS_madvise, address, size, advice);

    if (result == 0 && advice == MADV_FREE)
        __atomic_fetch_add(&lent, size, __ATOMIC_RELAXED);
    if (result == 0 && advice == MADV_DONTNEED)
        __atomic_fetch_add(&given_back, size, __ATOMIC_RELAXED);
    gf_slow_end(&mark, part, size);
    errno = error;
    return result;
}

int gf_heap_mprotect(void *address, size_t size, int protection)
{
    const int error = errno;
    const int result = (int)syscall(SYS_mprotect, address, size, protection);

    errno = error;
    return result;
}

void gf_system_set_node(int policy, const struct gf_nodes *nodes)
{
    lock();
    __atomic_store_n(&wanted.policy, policy, __ATOMIC_RELAXED);
    if (policy)
        wanted.nodes = *nodes;
    unlock();
}

uint64_t gf_system_refused(void)
{
    return __atomic_load_n(&refused, __ATOMIC_RELAXED);
}

int gf_system_refused_errno(void)
{
    return __atomic_load_n(&refused_errno, __ATOMIC_RELAXED);
}

size_t gf_system_ranges(struct gf_range *ret, size_t cap)
{
    lock();
    const size_t count = ranges.overflowed ? SIZE_MAX : ranges.count;
    for (size_t i = 0; i < cap; i++)
        ret[i] = i < ranges.count ? ranges.at[i] : (struct gf_range){0, 0};
    unlock();
    return count;
}

bool gf_system_range(size_t i, struct gf_range *ret)
{
    lock();
    const bool there = i < ranges.count;
    if (there)
        *ret = ranges.at[i];
    unlock();
    return there;
}

uint64_t gf_system_mapped(void)
{
    return __atomic_load_n(&ranges.bytes, __ATOMIC_RELAXED); /* one word: no lock needed */
}

uint64_t gf_system_lent(void)
{
    return __atomic_load_n(&lent, __ATOMIC_RELAXED);
}

uint64_t gf_system_given_back(void)
{
    return __atomic_load_n(&given_back, __ATOMIC_RELAXED);
}
