/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/attach/counters.h"

#include "base/loader.h"
#include "os/own_table.h"
#include "os/permit.h"

struct gf_submit_table gf_submissions;

/* If all sets are taken, this number of sets is checked for an owner that has ended. */
#define PROBES 4
/*
 * Distance between two checked sets. Neighbouring sets are not checked in turn, because if the
 * owner of a set lives, the owners of its neighbours often live too.
 */
#define STRIDE 17

__thread struct gf_thread gf_thread;
struct gf_counter_set *_Atomic gf_counters;
static struct gf_counter_set only_set; /* the first shared set, if no sets can be mapped */
_Atomic uint64_t gf_counter_owners[GF_COUNTER_OWN];

static const char *const names[gf_hook_count] = {
#define GF_CU(symbol) #symbol,
#define GF_LIBC(symbol) #symbol,
#include "abi/hooks.def"
};

/* The table whose first shared set is the only set. No thread has a set of its own then. */
static struct gf_counter_set *only_table(void)
{
    return (struct gf_counter_set *)((uintptr_t)&only_set - GF_COUNTER_OWN * sizeof(only_set));
}

static void map_sets(void)
{
    const size_t bytes = GF_COUNTER_SETS * sizeof(struct gf_counter_set);
    struct gf_counter_set *none = NULL;

    if (gf_load_acquire(&gf_counters))
        return;
    void *mapped = (void *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    struct gf_counter_set *sets = mapped == MAP_FAILED ? only_table() : mapped;
    if (!gf_cas_acq_rel(&gf_counters, &none, sets) && mapped != MAP_FAILED)
        syscall(SYS_munmap, mapped, bytes); /* another thread has mapped them */
}

static bool has_one_set(void)
{
    return gf_load_relaxed(&gf_counters) == only_table();
}

static pid_t process_of(uint64_t owner)
{
    return (pid_t)(owner >> 32);
}

static bool take_set(unsigned set, uint64_t from, uint64_t to)
{
    return gf_cas_acquire(&gf_counter_owners[set], &from, to);
}

static bool owner_has_ended(uint64_t owner, pid_t process)
{
    return process_of(owner) == process && syscall(SYS_tgkill, process, (pid_t)owner, 0) != 0 &&
           errno == ESRCH;
}

static unsigned find_set(pid_t process, pid_t thread)
{
    static _Atomic unsigned hand, shared;
    const uint64_t self = gf_counter_owner(process, thread);

    for (unsigned set = 0; set < GF_COUNTER_OWN; set++)
        if (!gf_load_relaxed(&gf_counter_owners[set]) && take_set(set, 0, self))
            return set;
    for (unsigned i = 0; i < PROBES; i++) {
        const unsigned set = gf_add_relaxed(&hand, STRIDE) % GF_COUNTER_OWN;
        const uint64_t owner = gf_load_relaxed(&gf_counter_owners[set]);
        if (owner_has_ended(owner, process) && take_set(set, owner, self)) {
            gf_submitter_end_calls(set);
            return set;
        }
    }
    return GF_COUNTER_OWN + gf_add_relaxed(&shared, 1) % GF_COUNTER_SHARED;
}

/*
 * A child of vfork uses a shared set, and does not store its number. In its parent, the set would
 * otherwise belong to a thread that does not exist. Nor does a thread of a sealed process (os/permit.h), in
 * which system calls that read ids may be forbidden.
 */
unsigned gf_counters_join(void)
{
    gf_libc_bind(); /* the first hooked call of the process may be that of a driver function */
    gf_keep_errno();

    map_sets();
    unsigned ret = GF_COUNTER_OWN + 1;
    if (!gf_permit_sealed() && gf_thread_is_own()) {
        if (!has_one_set())
            ret = find_set(getpid(), (pid_t)syscall(SYS_gettid)) + 1;
        gf_thread.counters = ret;
    }
    return ret;
}

void gf_counters_end_lost_calls(void)
{
    gf_keep_errno();
    const pid_t process = getpid();

    for (unsigned set = 0; set < GF_COUNTER_OWN; set++) {
        const uint64_t owner = gf_load_relaxed(&gf_counter_owners[set]);
        if (!owner || !gf_submitter_is_inside(set) || !owner_has_ended(owner, process) ||
            !take_set(set, owner, gf_counter_owner(process, 0)))
            continue;
        gf_submitter_end_calls(set);
        gf_store_release(&gf_counter_owners[set], 0);
    }
}

/*
 * Fork handlers that ran earlier may have started threads in the child. Such threads keep their
 * sets.
 */
void gf_counters_in_child(void)
{
    const pid_t process = getpid();
    const unsigned mine = gf_thread.counters;

    for (unsigned set = 0; set < GF_COUNTER_OWN; set++) {
        const uint64_t owner = gf_load_relaxed(&gf_counter_owners[set]);
        if (set + 1 == mine)
            gf_store_relaxed(&gf_counter_owners[set],
                             gf_counter_owner(process, (pid_t)syscall(SYS_gettid)));
        else if (owner && process_of(owner) != process)
            gf_store_relaxed(&gf_counter_owners[set], 0);
    }
}

static void add_counter(struct gf_counter *counter, struct gf_hook_counts *ret)
{
    const uint64_t calls = gf_load_relaxed(&counter->calls);
    ret->calls += calls;
    ret->copies += calls + gf_load_relaxed(&counter->more);
    ret->bytes += gf_load_relaxed(&counter->bytes);
    ret->offered += gf_load_relaxed(&counter->offered);
    ret->offered_bytes += gf_load_relaxed(&counter->offered_bytes);
    ret->unfit += gf_load_relaxed(&counter->unfit);
    ret->unfit_bytes += gf_load_relaxed(&counter->unfit_bytes);
}

bool gf_counters_read(size_t i, struct gf_hook_counts *ret)
{
    struct gf_counter_set *const sets = gf_load_acquire(&gf_counters);
    const bool is_one = has_one_set();
    const unsigned first = is_one ? GF_COUNTER_OWN : 0, end = is_one ? first + 1 : GF_COUNTER_SETS;

    if (i >= gf_hook_count)
        return false;
    *ret = (struct gf_hook_counts){.name = names[i]};
    for (unsigned set = first; sets && set < end; set++)
        add_counter(&sets[set].of[i], ret);
    return true;
}
