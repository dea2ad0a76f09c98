/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/aside.h"

#include "base/clock.h"
#include "host/headroom.h"
#include "transfer/pool.h"
#include "transfer/tuning.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 4
#define HUGE GF_MIB(2)

enum { slot_free, slot_held, slot_left };

static struct slot {
    struct gf_job job; /* nobody's: helpers do it when there is nothing to copy */
    struct gf_pool *pool;
    unsigned state; /* atomic */
    char *room;     /* address space around it; NULL: none, or released */
    size_t room_bytes;
    char *at;
    size_t bytes;
    bool stays; /* a forked child does not have it: there is a hole, which others may use */
} slots[SLOTS];

/* By its number: nobody else knows of the range, and nobody's hooks shall hear of it. */
static void release(struct slot *slot)
{
    if (slot->room)
        syscall(SYS_munmap, slot->room, slot->room_bytes);
    slot->room = NULL;
}

static bool change(struct slot *slot, unsigned from, unsigned to)
{
    return __atomic_load_n(&slot->state, __ATOMIC_RELAXED) == from &&
           __atomic_compare_exchange_n(&slot->state, &from, to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

static void collect(void)
{
    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &slots[i];
        if (!change(slot, slot_left, slot_held))
            continue;
        const bool done = gf_pool_finished(&slot->job);
        if (done)
            gf_pool_close(slot->pool, &slot->job);
        __atomic_store_n(&slot->state, done ? slot_free : slot_left, __ATOMIC_RELEASE);
    }
}

static struct slot *claim(void)
{
    collect();
    for (size_t i = 0; i < SLOTS; i++)
        if (change(&slots[i], slot_free, slot_held))
            return &slots[i];
    return NULL;
}

/* One helper at a time, in order. The last piece is what is left to do: freeing the pages. */
static bool work(struct gf_job *job, uint64_t piece)
{
    struct slot *slot = (struct slot *)job;
    const size_t done = (size_t)piece * HUGE;

    if (done < slot->bytes)
        madvise(slot->at + done, gf_min(HUGE, slot->bytes - done), MADV_DONTNEED);
    else
        release(slot);
    return true;
}

/*
 * Memory and room in /dev/shm for many times as much: whoever fails for want of it while this is on its
 * way would have failed without it, too. Both are looked at ten times a second.
 */
static bool is_roomy(size_t bytes)
{
    static uint64_t looked_ns, found; /* atomic */
    const uint64_t now = gf_now_ns();

    if (now - __atomic_load_n(&looked_ns, __ATOMIC_ACQUIRE) > GF_TUNE_ASIDE_LOOK_NS) {
        struct gf_headroom left;
        struct statfs shm;
        gf_headroom_read("", -1, &left);
        const uint64_t room = statfs("/dev/shm", &shm) ? 0 : (uint64_t)shm.f_bavail * (uint64_t)shm.f_bsize;
        __atomic_store_n(&found, left.bytes == GF_HEADROOM_UNKNOWN ? 0 : gf_min(left.bytes, room),
                         __ATOMIC_RELAXED);
        __atomic_store_n(&looked_ns, now, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&found, __ATOMIC_RELAXED) / GF_TUNE_ASIDE_TIMES >= bytes;
}

/* Page tables move as a whole where both addresses lie alike in them. */
static bool reserve(struct slot *slot, const char *like, size_t bytes)
{
    slot->room_bytes = bytes + HUGE;
    void *room = mmap(NULL, slot->room_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return false;
    slot->stays = false;
    slot->room = room;
    slot->at = slot->room + ((uintptr_t)like - (uintptr_t)room) % HUGE;
    slot->bytes = bytes;
    return true;
}

/* By libc's mremap: communication libraries watch it, as munmap, to forget what they know of a range. */
static bool move(struct slot *slot, void *at, size_t bytes)
{
    if (reserve(slot, at, bytes) &&
        mremap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, slot->at) != MAP_FAILED) {
        slot->stays = true;
        slot->stays = madvise(slot->at, bytes, MADV_DONTFORK) == 0;
        return true;
    }
    release(slot);
    return false;
}

static void leave_to(struct gf_pool *pool, struct slot *slot)
{
    const uint64_t pieces = (slot->bytes + HUGE - 1) / HUGE + 1;

    slot->pool = pool;
    slot->job = (struct gf_job){.work = work, .most = 1, .patient = true, .total = pieces};
    gf_pool_open(pool, &slot->job, pieces);
}

bool gf_aside_move(struct gf_pool *pool, void *at, size_t bytes)
{
    const int error = errno;
    struct slot *slot = is_roomy(bytes) ? claim() : NULL;
    const bool moved = slot && move(slot, at, bytes);

    if (moved)
        leave_to(pool, slot);
    if (slot)
        __atomic_store_n(&slot->state, moved ? slot_left : slot_free, __ATOMIC_RELEASE);
    errno = error;
    return moved;
}

void gf_aside_forked(void)
{
    for (size_t i = 0; i < SLOTS; i++)
        if (!slots[i].stays)
            release(&slots[i]);
}
