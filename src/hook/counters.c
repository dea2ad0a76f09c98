/* SPDX-License-Identifier: Apache-2.0 */
#include "hook/counters.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROBES 4 /* owners of sets that a thread asks after when all sets are taken */

__thread struct gf_thread gf_thread;
struct gf_counter_set gf_counters[GF_COUNTER_OWN + 1];

/* Which thread a set is of; 0: of none so far. That of one that has ended is the next one's. */
static pid_t owners[GF_COUNTER_OWN];
static pid_t process; /* of the threads above */

static const char *const names[gf_hook_count] = {
#define GF_CU(symbol) #symbol,
#define GF_LIBC(symbol) #symbol,
#include "hook/hooks.def"
};

static bool take(unsigned set, pid_t from, pid_t tid)
{
    return __atomic_compare_exchange_n(&owners[set], &from, tid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static bool has_ended(pid_t tid)
{
    return syscall(SYS_tgkill, __atomic_load_n(&process, __ATOMIC_RELAXED), tid, 0) != 0 && errno == ESRCH;
}

static unsigned find_set(pid_t tid)
{
    static unsigned hand;

    for (unsigned set = 0; set < GF_COUNTER_OWN; set++)
        if (!__atomic_load_n(&owners[set], __ATOMIC_RELAXED) && take(set, 0, tid))
            return set;
    for (unsigned i = 0; i < PROBES; i++) {
        const unsigned set = __atomic_fetch_add(&hand, 1, __ATOMIC_RELAXED) % GF_COUNTER_OWN;
        const pid_t owner = __atomic_load_n(&owners[set], __ATOMIC_RELAXED);
        if (has_ended(owner) && take(set, owner, tid))
            return set;
    }
    return GF_COUNTER_OWN;
}

unsigned gf_counters_join(void)
{
    const int error = errno;

    if (!__atomic_load_n(&process, __ATOMIC_RELAXED))
        __atomic_store_n(&process, getpid(), __ATOMIC_RELAXED);
    gf_thread.counters = find_set((pid_t)syscall(SYS_gettid)) + 1;
    errno = error;
    return gf_thread.counters;
}

void gf_counters_in_child(void)
{
    __atomic_store_n(&process, getpid(), __ATOMIC_RELAXED);
    if (gf_thread.counters && gf_thread.counters <= GF_COUNTER_OWN)
        __atomic_store_n(&owners[gf_thread.counters - 1], (pid_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
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
