/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/pages/retain.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "os/headroom.h"
#include "os/own_table.h"
#include "os/permit.h"
#include "preload/heap/jemalloc/jemalloc.h"
#include "preload/heap/pages/page_counts.h"
#include "preload/heap/pages/unused.h"

#include <errno.h>

#define MIB (UINT64_C(1) << 20)

/*
 * A process that retains fewer bytes than this does not read the headroom, so small programs open
 * no file.
 */
#define LITTLE (32 * MIB)
/* After a new mapping, the next check is made when this many bytes have been freed. */
#define SOON (32 * MIB)
/* The headroom is read again only after this time. The engine reads it more often. */
#define READING_NS UINT64_C(500000000)
/* A forked child purges the free pages that it inherits if they have at least this many bytes. */
#define CHILD_MIN (16 * MIB)

struct gf_retain_count gf_retain_count = {.check_at = LITTLE};

static struct {
    enum gf_profile profile;
    bool managed;               /* false: a user's MALLOC_CONF sets the decay times */
    _Atomic bool watched;       /* true: the engine of this process checks regularly */
    void (*_Atomic wake)(void); /* wakes the engine, which sleeps while little is retained */
    _Atomic bool woken;         /* true: the engine was woken since its last check */
    _Atomic bool busy;          /* a thread checks, frees lazily or purges */
    _Atomic uint64_t headroom, dirty_limit; /* the values at the last check */
    _Atomic uint64_t readings, lazy_frees, purges;
} retain;

uint64_t gf_retain_bound(uint64_t headroom, enum gf_profile profile, bool watched)
{
    const uint64_t least = 4 * MIB, most_unwatched = 512 * MIB;
    uint64_t bound;

    if (headroom == GF_HEADROOM_UNKNOWN)
        return 8 * SOON;
    /*
     * Without an engine, the bound is lower. A process without an engine keeps its free pages while
     * it sleeps, and a machine may have many such processes.
     */
    if (!watched)
        bound = gf_min(headroom / 8, most_unwatched);
    else
        bound = profile == gf_profile_inference ? headroom / 16 : headroom / 4;
    return gf_max(bound, least);
}

bool gf_retain_begin(void)
{
    return !gf_exchange_acquire(&retain.busy, true);
}

void gf_retain_end(void)
{
    gf_store_release(&retain.busy, false);
}

static void set_decay(unsigned arena, ssize_t ms)
{
    char name[40];
    gf_fmt(name, sizeof(name), "arena.%u.dirty_decay_ms", arena);
    /* The call fails for an arena that was never used. */
    je_mallctl(name, NULL, NULL, &ms, sizeof(ms));
}

static unsigned count_arenas(void)
{
    unsigned count = 0;
    size_t size = sizeof(count);
    je_mallctl("arenas.narenas", &count, &size, NULL, 0);
    return count;
}

/*
 * Setting the dirty decay time to 0 makes jemalloc free all dirty pages lazily at once. mallctl's
 * "purge" would purge them instead.
 */
static void free_all_lazily(void)
{
    const unsigned count = count_arenas();

    gf_store_relaxed(&gf_retain_count.freed, 0);
    for (unsigned arena = 0; arena < count; arena++) {
        set_decay(arena, 0);
        set_decay(arena, je_opt_dirty_decay_ms);
    }
    gf_page_counts_forget_most();
    gf_add_relaxed(&retain.lazy_frees, 1);
}

static __thread bool purging; /* this thread is in gf_retain_purge */

bool gf_retain_allows_purge(void)
{
    return purging || !retain.managed;
}

void gf_retain_purge(void)
{
    gf_store_relaxed(&gf_retain_count.freed, 0);
    purging = true;
    je_mallctl("arena." GF_ARENAS_ALL ".purge", NULL, NULL, NULL, 0);
    purging = false;
}

/*
 * Called only by the holder of `busy`. The engine tells the headroom that it reads. Without an
 * engine, a process with several threads keeps its last reading: reading again would flush the
 * program's open files each time (os/own_table.h).
 */
static uint64_t retain_headroom(void)
{
    static struct gf_headroom_scratch scratch;
    /*
     * True if no file shows the headroom. In that case no file is opened again, because a sandbox
     * might kill the process for opening it.
     */
    static bool blind;
    static uint64_t read_ns;
    struct gf_headroom headroom;
    const uint64_t now = gf_coarse_ns();

    if (blind)
        return GF_HEADROOM_UNKNOWN;
    const bool kept = gf_load_relaxed(&retain.watched) || !gf_own_table_is_own();
    if (kept || gf_permit_sealed() || now - read_ns < READING_NS)
        return gf_load_relaxed(&retain.readings) ? gf_load_relaxed(&retain.headroom)
                                                 : GF_HEADROOM_UNKNOWN;
    if (!gf_headroom_read_in(&scratch, "", -1, &headroom))
        return GF_HEADROOM_UNKNOWN;
    read_ns = now;
    gf_store_relaxed(&retain.headroom, headroom.bytes);
    gf_add_relaxed(&retain.readings, 1);
    blind = headroom.bytes == GF_HEADROOM_UNKNOWN;
    return headroom.bytes;
}

/* An upper bound, because it includes pages that the program never touched. */
static uint64_t retained_bytes(void)
{
    return gf_load_relaxed(&gf_page_counts.unknown) ? 0 : gf_unused_kept();
}

/* Wakes the engine, at most once after each call of gf_retain_watch. */
static void wake_engine(void)
{
    void (*const wake)(void) = gf_load_acquire(&retain.wake);

    if (wake && !gf_exchange_acq_rel(&retain.woken, true))
        wake();
}

/*
 * Returns how many bytes may be freed before the next check. With this step, the dirty bytes exceed
 * their bound by at most an eighth.
 */
static uint64_t check_step(uint64_t bound, uint64_t dirty, bool watched)
{
    const uint64_t left = dirty < bound ? bound - dirty : 0;
    const uint64_t step = gf_max(left, bound / 8);
    /*
     * The engine sleeps while few bytes are dirty. The engine must be woken when LITTLE bytes are
     * dirty.
     */
    return dirty < LITTLE && watched ? gf_min(step, LITTLE) : step;
}

static void check_retained(void)
{
    const uint64_t retained = retained_bytes();
    const uint64_t freed = gf_load_relaxed(&gf_retain_count.freed);
    const uint64_t dirty = gf_min(retained, freed); /* an upper bound of the dirty bytes */

    if (dirty >= LITTLE)
        wake_engine();
    if (retained < LITTLE) {
        gf_store_relaxed(&gf_retain_count.check_at, freed + LITTLE);
        return;
    }
    const bool watched = gf_load_relaxed(&retain.watched);
    const uint64_t bound = gf_retain_bound(retain_headroom(), retain.profile, watched);

    gf_store_relaxed(&retain.dirty_limit, bound);
    if (retained > bound && freed >= bound) {
        free_all_lazily();
        gf_store_relaxed(&gf_retain_count.check_at, bound);
    } else {
        const uint64_t step = check_step(bound, dirty, watched);
        gf_store_relaxed(&gf_retain_count.check_at, freed + step);
    }
}

void gf_retain_check(void)
{
    if (!gf_retain_begin())
        return;
    const int error = errno;
    if (retain.managed)
        check_retained();
    else
        gf_store_relaxed(&gf_retain_count.check_at, UINT64_MAX);
    errno = error;
    gf_retain_end();
}

void gf_retain_grown(void)
{
    const uint64_t soon = gf_load_relaxed(&gf_retain_count.freed) + SOON;
    if (retain.managed && soon < gf_load_relaxed(&gf_retain_count.check_at))
        gf_store_relaxed(&gf_retain_count.check_at, soon);
}

bool gf_retain_free_lazily(void)
{
    if (!retain.managed || !gf_retain_begin())
        return false;
    const int error = errno;
    free_all_lazily();
    errno = error;
    gf_retain_end();
    return true;
}

bool gf_retain_purge_now(void)
{
    if (!retain.managed || !gf_retain_begin())
        return false;
    const int error = errno;
    gf_retain_purge();
    gf_add_relaxed(&retain.purges, 1);
    errno = error;
    gf_retain_end();
    return true;
}

void gf_retain_in_child(bool may_lock)
{
    const bool interrupted = gf_load_relaxed(&retain.busy);

    gf_own_table_in_child();
    gf_store_relaxed(&retain.busy, false);
    gf_store_relaxed(&retain.watched, false);
    gf_store_relaxed(&retain.wake, NULL);
    gf_store_relaxed(&retain.woken, false);
    if (!may_lock || !retain.managed)
        return;
    const int error = errno;
    if (interrupted) /* at the fork, another thread may have been between its two set_decay calls */
        for (unsigned arena = count_arenas(); arena-- > 0;)
            set_decay(arena, je_opt_dirty_decay_ms);
    if (gf_unlikely(retained_bytes() >= CHILD_MIN)) {
        gf_retain_purge();
        gf_store_relaxed(&gf_retain_count.check_at, SOON);
    }
    errno = error;
}

void gf_retain_init(enum gf_profile profile, bool managed)
{
    retain.profile = profile;
    retain.managed = managed;
}

void gf_retain_watch(void (*wake)(void))
{
    const bool asks_again = gf_exchange_acq_rel(&retain.wake, wake) == wake;

    gf_store_relaxed(&retain.watched, true);
    if (!gf_exchange_acq_rel(&retain.woken, false) && asks_again)
        return;
    gf_store_relaxed(&gf_retain_count.check_at, 0); /* The next call of free then makes a check. */
}

void gf_retain_tell_headroom(uint64_t bytes)
{
    gf_store_relaxed(&retain.headroom, bytes);
    gf_add_relaxed(&retain.readings, 1);
}

bool gf_retain_managed(void)
{
    return retain.managed && !gf_load_relaxed(&gf_page_counts.unknown);
}

bool gf_retain_watched(void)
{
    return gf_load_relaxed(&retain.watched);
}

void gf_retain_read(struct gf_heap_retained *ret)
{
    *ret = (struct gf_heap_retained){
        .managed = retain.managed,
        .max_bytes = retained_bytes(),
        .unused_bytes = gf_unused_total(),
        .unused_purged = gf_load_relaxed(&gf_page_counts.unused_purged),
        .freed = gf_load_relaxed(&gf_retain_count.freed),
        .dirty_limit = gf_load_relaxed(&retain.dirty_limit),
        .headroom = gf_load_relaxed(&retain.headroom),
        .readings = gf_load_relaxed(&retain.readings),
        .lazy_frees = gf_load_relaxed(&retain.lazy_frees),
        .purges = gf_load_relaxed(&retain.purges),
        .lazily_freed_bytes = gf_load_relaxed(&gf_page_counts.lazily_freed),
        .purged_bytes = gf_load_relaxed(&gf_page_counts.purged),
    };
}
