/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/counters.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROBES 4 /* owners of sets that a thread asks after when all sets are taken... */
#define STRIDE 17 /* ...far from each other: those that live on are often side by side */

__thread struct gf_thread gf_thread;
struct gf_counter_set gf_counters[GF_COUNTER_OWN + GF_COUNTER_SHARED];

/*
 * Whose a set is, which thread's of which process; 0: nobody's so far. That of a thread that has ended is the next one's.
 * A forked child has its parent's, any of which may be of who forked: nobody takes them until gf_counters_in_child, which
 * forks before the process's own cuInit do not call.
 */
static uint64_t owners[GF_COUNTER_OWN];

static const char *const names[gf_hook_count] = {
#define GF_CU(symbol) #symbol,
#define GF_LIBC(symbol) #symbol,
#include "hook/hooks.def"
};

static uint64_t name_of(pid_t process, pid_t thread)
{
    return (uint64_t)(uint32_t)process << 32 | (uint32_t)thread;
}

static pid_t process_of(uint64_t owner)
{
    return (pid_t)(owner >> 32);
}

static bool take(unsigned set, uint64_t from, uint64_t to)
{
    return __atomic_compare_exchange_n(&owners[set], &from, to, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static bool has_ended(uint64_t owner, pid_t process)
{
    return process_of(owner) == process && syscall(SYS_tgkill, process, (pid_t)owner, 0) != 0 && errno == ESRCH;
}

static unsigned find_set(pid_t process, pid_t thread)
{
    static unsigned hand, shared;
    const uint64_t self = name_of(process, thread);

    for (unsigned set = 0; set < GF_COUNTER_OWN; set++)
        if (!__atomic_load_n(&owners[set], __ATOMIC_RELAXED) && take(set, 0, self))
            return set;
    for (unsigned i = 0; i < PROBES; i++) {
        const unsigned set = __atomic_fetch_add(&hand, STRIDE, __ATOMIC_RELAXED) % GF_COUNTER_OWN;
        const uint64_t owner = __atomic_load_n(&owners[set], __ATOMIC_RELAXED);
        if (has_ended(owner, process) && take(set, owner, self))
            return set;
    }
    return GF_COUNTER_OWN + __atomic_fetch_add(&shared, 1, __ATOMIC_RELAXED) % GF_COUNTER_SHARED;
}

unsigned gf_counters_join(void)
{
    const int error = errno;

    gf_thread.counters = find_set(getpid(), (pid_t)syscall(SYS_gettid)) + 1;
    errno = error;
    return gf_thread.counters;
}

/* Handlers of forks may have started threads here. */
void gf_counters_in_child(void)
{
    const pid_t process = getpid();
    const unsigned mine = gf_thread.counters;

    for (unsigned set = 0; set < GF_COUNTER_OWN; set++) {
        const uint64_t owner = __atomic_load_n(&owners[set], __ATOMIC_RELAXED);
        if (set + 1 == mine)
            __atomic_store_n(&owners[set], name_of(process, (pid_t)syscall(SYS_gettid)), __ATOMIC_RELAXED);
        else if (owner && process_of(owner) != process)
            __atomic_store_n(&owners[set], 0, __ATOMIC_RELAXED);
    }
}

static void add(const struct gf_counter *counter, struct gf_tally *ret)
{
    const uint64_t calls = __atomic_load_n(&counter->calls, __ATOMIC_RELAXED);
    ret->calls += calls;
    ret->copies += calls + __atomic_load_n(&counter->more, __ATOMIC_RELAXED);
    ret->bytes += __atomic_load_n(&counter->bytes, __ATOMIC_RELAXED);
    ret->offered += __atomic_load_n(&counter->offered, __ATOMIC_RELAXED);
    ret->offered_bytes += __atomic_load_n(&counter->offered_bytes, __ATOMIC_RELAXED);
    ret->unfit += __atomic_load_n(&counter->unfit, __ATOMIC_RELAXED);
    ret->unfit_bytes += __atomic_load_n(&counter->unfit_bytes, __ATOMIC_RELAXED);
}

void gf_counters_each(gf_tally_see *see, void *closure)
{
    for (unsigned i = 0; i < gf_hook_count; i++) {
        struct gf_tally tally = {.name = names[i]};
        for (unsigned set = 0; set < GF_ARRAY_LEN(gf_counters); set++)
            add(&gf_counters[set].of[i], &tally);
        if (!see(closure, &tally))
            return;
    }
}
