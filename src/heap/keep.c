/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/keep.h"

#include "base/fmt.h"
#include "heap/extents.h"
#include "heap/jemalloc.h"
#include "heap/settings.h"
#include "heap/system.h"
#include "host/headroom.h"

#include <errno.h>
#include <pthread.h>

#define MIB (UINT64_C(1) << 20)

/* What nobody would miss: below it nothing is looked at, so small programs never open a file. */
#define LITTLE (32 * MIB)
/* After new memory was mapped. */
#define SOON (32 * MIB)
/* A forked child with less of its parent's is not worth its while. */
#define CHILD_LEAST (16 * MIB)

struct gf_keep_count gf_keep_count = {.look_at = LITTLE};

static struct {
    enum gf_profile profile;
    bool ours;            /* the decay is as we set it: a user's MALLOC_CONF did not */
    bool watched;         /* by this process's engine */
    void (*wake)(void);   /* it looks seldom while little is kept */
    bool woken;           /* since it asked to be */
    bool busy;            /* somebody looks, lends or gives back */
    uint64_t room, bound; /* at the last look */
    uint64_t looks, lends, give_backs, in_child;
} keep;

uint64_t gf_keep_bound(uint64_t room, enum gf_profile profile, bool watched)
{
    const uint64_t least = 4 * MIB, most_unwatched = 512 * MIB;
    uint64_t bound;

    if (room == GF_HEADROOM_UNKNOWN)
        return 8 * SOON;
    /* A process that nobody watches keeps it for as long as it does nothing, and may have siblings.
     */
    if (!watched)
        bound = gf_min(room / 8, most_unwatched);
    else
        bound = profile == gf_profile_inference ? room / 16 : room / 4;
    return gf_max(bound, least);
}

static bool begin(void)
{
    return !__atomic_exchange_n(&keep.busy, true, __ATOMIC_ACQUIRE);
}

static void end(void)
{
    __atomic_store_n(&keep.busy, false, __ATOMIC_RELEASE);
}

static void set_decay(unsigned arena, ssize_t ms)
{
    char name[40];
    gf_fmt(name, sizeof(name), "arena.%u.dirty_decay_ms", arena);
    je_mallctl(name, NULL, NULL, &ms, sizeof(ms)); /* refused for an arena that nobody has used */
}

static unsigned arenas(void)
{
    unsigned count = 0;
    size_t size = sizeof(count);
    je_mallctl("arenas.narenas", &count, &size, NULL, 0);
    return count;
}

/*
 * All dirty pages at once: a decay time of 0 advises whatever is there, and by the muzzy time they
 * stay. jemalloc's own "purge" would take them away.
 */
static void lend_all(void)
{
    const unsigned count = arenas();

    __atomic_store_n(&gf_keep_count.freed, 0, __ATOMIC_RELAXED);
    for (unsigned arena = 0; arena < count; arena++) {
        set_decay(arena, 0);
        set_decay(arena, je_opt_dirty_decay_ms);
    }
    gf_extents_forget();
    __atomic_fetch_add(&keep.lends, 1, __ATOMIC_RELAXED);
}

static __thread bool meant; /* this thread is in gf_keep_purge */

bool gf_keep_means_all(void)
{
    return meant || !keep.ours;
}

void gf_keep_purge(void)
{
    __atomic_store_n(&gf_keep_count.freed, 0, __ATOMIC_RELAXED);
    meant = true;
    je_mallctl("arena." GF_ARENAS_ALL ".purge", NULL, NULL, NULL, 0);
    meant = false;
}

/* The holder of busy only. */
static uint64_t look_at_room(void)
{
    static struct gf_headroom_scratch scratch;
    static bool blind; /* nothing is there to be read: who asks on may be noticed by a sandbox */
    struct gf_headroom room;

    if (blind)
        return GF_HEADROOM_UNKNOWN;
    gf_headroom_read_in(&scratch, "", -1, &room);
    __atomic_store_n(&keep.room, room.bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&keep.looks, 1, __ATOMIC_RELAXED);
    blind = room.bytes == GF_HEADROOM_UNKNOWN;
    return room.bytes;
}

/* At most: address space that was never touched is in it too. */
static uint64_t kept_at_most(void)
{
    const uint64_t mapped = gf_system_mapped(), active = gf_extents_active();
    return active && mapped > active ? mapped - active : 0;
}

/* Once, when there begins to be something to watch; again after it has asked again. */
static void wake_watch(void)
{
    void (*const wake)(void) = __atomic_load_n(&keep.wake, __ATOMIC_ACQUIRE);

    if (wake && !__atomic_exchange_n(&keep.woken, true, __ATOMIC_ACQ_REL))
        wake();
}

/* The next look is due before more than an eighth beyond the bound can be dirty. */
static void look(void)
{
    const uint64_t kept = kept_at_most();
    uint64_t freed = __atomic_load_n(&gf_keep_count.freed, __ATOMIC_RELAXED);
    const bool much = gf_min(kept, freed) >= LITTLE;

    if (much)
        wake_watch();
    if (kept < LITTLE) {
        __atomic_store_n(&gf_keep_count.look_at, freed + LITTLE, __ATOMIC_RELAXED);
        return;
    }
    const uint64_t bound = gf_keep_bound(look_at_room(), keep.profile, keep.watched);
    uint64_t step = bound;

    __atomic_store_n(&keep.bound, bound, __ATOMIC_RELAXED);
    if (kept > bound && freed >= bound) {
        lend_all();
        freed = 0;
    } else {
        step = gf_max(bound - gf_min(bound, gf_min(kept, freed)), bound / 8);
        if (!much && keep.watched)
            step = gf_min(step, LITTLE); /* the watch sleeps until then */
    }
    __atomic_store_n(&gf_keep_count.look_at, freed + step, __ATOMIC_RELAXED);
}

void gf_keep_look(void)
{
    if (!begin())
        return;
    const int error = errno;
    if (keep.ours)
        look();
    else
        __atomic_store_n(&gf_keep_count.look_at, UINT64_MAX, __ATOMIC_RELAXED);
    errno = error;
    end();
}

void gf_keep_grown(void)
{
    const uint64_t soon = __atomic_load_n(&gf_keep_count.freed, __ATOMIC_RELAXED) + SOON;
    if (keep.ours && soon < __atomic_load_n(&gf_keep_count.look_at, __ATOMIC_RELAXED))
        __atomic_store_n(&gf_keep_count.look_at, soon, __ATOMIC_RELAXED);
}

bool gf_keep_lend(void)
{
    if (!keep.ours || !begin())
        return false;
    const int error = errno;
    lend_all();
    errno = error;
    end();
    return true;
}

bool gf_keep_give_back(void)
{
    if (!keep.ours || !begin())
        return false;
    const int error = errno;
    gf_keep_purge();
    __atomic_fetch_add(&keep.give_backs, 1, __ATOMIC_RELAXED);
    errno = error;
    end();
    return true;
}

/*
 * What the parent keeps for itself it would have to copy, page by page, when it fills it again,
 * as long as this process holds on to it too. Where an exec follows, the kernel would do the same
 * work there.
 */
static void in_child(void)
{
    const bool interrupted = keep.busy;

    keep.busy = false;
    keep.watched = false;
    keep.wake = NULL;
    keep.woken = false;
    if (gf_likely(!keep.ours || kept_at_most() < CHILD_LEAST))
        return;
    const int error = errno;
    if (interrupted) /* perhaps in the midst of lending */
        for (unsigned arena = arenas(); arena-- > 0;)
            set_decay(arena, je_opt_dirty_decay_ms);
    gf_keep_purge();
    __atomic_store_n(&gf_keep_count.look_at, SOON, __ATOMIC_RELAXED);
    keep.in_child++;
    errno = error;
}

void gf_keep_init(const struct gf_options *options)
{
    keep.profile = options->profile;
    keep.ours = gf_settings_decay_is_ours();
    pthread_atfork(NULL, NULL, in_child);
}

void gf_keep_watched(void (*wake)(void))
{
    const bool asks_again = __atomic_exchange_n(&keep.wake, wake, __ATOMIC_ACQ_REL) == wake;

    __atomic_store_n(&keep.watched, true, __ATOMIC_RELAXED);
    if (!__atomic_exchange_n(&keep.woken, false, __ATOMIC_ACQ_REL) && asks_again)
        return;
    __atomic_store_n(&gf_keep_count.look_at, 0, __ATOMIC_RELAXED); /* look anew */
}

void gf_keep_read(struct gf_heap_kept *ret)
{
    *ret = (struct gf_heap_kept){
        .ours = keep.ours,
        .most = kept_at_most(),
        .freed = __atomic_load_n(&gf_keep_count.freed, __ATOMIC_RELAXED),
        .bound = __atomic_load_n(&keep.bound, __ATOMIC_RELAXED),
        .looks = __atomic_load_n(&keep.looks, __ATOMIC_RELAXED),
        .room = __atomic_load_n(&keep.room, __ATOMIC_RELAXED),
        .lends = __atomic_load_n(&keep.lends, __ATOMIC_RELAXED),
        .give_backs = __atomic_load_n(&keep.give_backs, __ATOMIC_RELAXED),
        .lent_bytes = gf_system_lent(),
        .given_back_bytes = gf_system_given_back(),
    };
}
