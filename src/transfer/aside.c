/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/aside.h"

#include "base/clock.h"
#include "host/headroom.h"
#include "transfer/pool.h"
#include "transfer/tuning.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 4
#define HUGE GF_MIB(2)

static struct slot {
    struct gf_job job; /* nobody's: helpers do it when there is nothing to copy */
    bool held;         /* atomic */
    char *room;        /* address space around it; NULL: none, or released */
    size_t room_bytes;
    char *at;
    size_t bytes;
} slots[SLOTS];

/* By its number: nobody else knows of the range, and nobody's hooks shall hear of it. */
static void release(struct slot *slot)
{
    if (slot->room)
        syscall(SYS_munmap, slot->room, slot->room_bytes);
    slot->room = NULL;
}

static struct slot *claim(void)
{
    for (size_t i = 0; i < SLOTS; i++)
        if (!__atomic_exchange_n(&slots[i].held, true, __ATOMIC_ACQUIRE))
            return &slots[i];
    return NULL;
}

static void let_go(struct slot *slot)
{
    __atomic_store_n(&slot->held, false, __ATOMIC_RELEASE);
}

static void gone(struct gf_job *job)
{
    let_go((struct slot *)job);
}

/* What was moved counts there still. */
static bool is_address_space_limited(void)
{
    struct rlimit space;
    return getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur != RLIM_INFINITY;
}

/* What is left of memory and of room in /dev/shm; 0: one is unknown. One thread at a time: its stack may be small. */
static uint64_t read_room(void)
{
    static struct gf_headroom_scratch scratch;
    struct gf_headroom left;
    struct statfs shm;

    if (statfs("/dev/shm", &shm) != 0)
        return 0;
    gf_headroom_read_in(&scratch, "", -1, &left);
    return left.bytes == GF_HEADROOM_UNKNOWN
               ? 0
               : gf_min(left.bytes, (uint64_t)shm.f_bavail * (uint64_t)shm.f_bsize);
}

static uint64_t looked_ns, found; /* atomic: when, and what there was room for */

static void look(void)
{
    static bool busy; /* atomic */
    if (__atomic_exchange_n(&busy, true, __ATOMIC_ACQUIRE))
        return;
    __atomic_store_n(&found, read_room(), __ATOMIC_RELAXED);
    __atomic_store_n(&looked_ns, gf_now_ns(), __ATOMIC_RELEASE);
    __atomic_store_n(&busy, false, __ATOMIC_RELEASE);
}

/*
 * There for many times as much: whoever fails for want of it while this is on its way would have failed
 * without it, too. To look takes as long as to move a batch: a loop finds what a helper saw behind the last one.
 */
static bool is_roomy(size_t bytes)
{
    if (gf_now_ns() - __atomic_load_n(&looked_ns, __ATOMIC_ACQUIRE) > GF_TUNE_ASIDE_LOOK_NS)
        look();
    return __atomic_load_n(&found, __ATOMIC_RELAXED) / GF_TUNE_ASIDE_TIMES >= bytes;
}

/* One helper at a time, in order. The last piece is what is left to do: freeing the pages. */
static bool work(struct gf_job *job, uint64_t piece)
{
    struct slot *slot = (struct slot *)job;
    const size_t done = (size_t)piece * HUGE;

    if (done < slot->bytes) {
        madvise(slot->at + done, gf_min(HUGE, slot->bytes - done), MADV_DONTNEED);
    } else {
        release(slot);
        look();
    }
    return true;
}

/* Page tables move as a whole where both addresses lie alike in them. */
static bool reserve(struct slot *slot, const char *like, size_t bytes)
{
    slot->room_bytes = bytes + HUGE;
    void *room = mmap(NULL, slot->room_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return false;
    madvise(room, slot->room_bytes, MADV_DONTFORK); /* of no use to a child */
    slot->room = room;
    slot->at = slot->room + ((uintptr_t)like - (uintptr_t)room) % HUGE;
    slot->bytes = bytes;
    return true;
}

/*
 * By libc's mremap: communication libraries watch it, as munmap, to forget what they know of a range. Where
 * the kernel refuses it may have emptied the new place before, and another thread be there: nobody unmaps it.
 * As that is not given back, nothing is moved any more. A child that is forked in the midst of it has the
 * mapping where it was or nowhere, so before it is moved children must not inherit it.
 */
static bool move(struct slot *slot, void *at, size_t bytes)
{
    static bool refused; /* atomic */

    if (__atomic_load_n(&refused, __ATOMIC_RELAXED) || !reserve(slot, at, bytes))
        return false;
    if (madvise(at, bytes, MADV_DONTFORK) != 0) {
        release(slot);
        return false;
    }
    if (mremap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, slot->at) == MAP_FAILED) {
        madvise(at, bytes, MADV_DOFORK);
        __atomic_store_n(&refused, true, __ATOMIC_RELAXED);
        slot->room = NULL;
        return false;
    }
    syscall(SYS_munlock, slot->room, slot->room_bytes); /* locked memory is limited, too */
    return true;
}

static void leave_to(struct gf_pool *pool, struct slot *slot)
{
    const uint64_t pieces = (slot->bytes + HUGE - 1) / HUGE + 1;

    slot->job = (struct gf_job){.work = work, .gone = gone, .most = 1, .patient = true, .total = pieces};
    gf_pool_open(pool, &slot->job, pieces);
}

bool gf_aside_move(struct gf_pool *pool, void *at, size_t bytes)
{
    const int error = errno;
    struct slot *slot = !is_address_space_limited() && is_roomy(bytes) ? claim() : NULL;
    const bool moved = slot && move(slot, at, bytes);

    if (moved)
        leave_to(pool, slot);
    else if (slot)
        let_go(slot);
    errno = error;
    return moved;
}
