/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/shm/unmap_later.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/pool.h"
#include "engine/transfer/tuning.h"
#include "os/headroom.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 4

/*
 * A mapping that a helper frees. If `bytes` is 0, there is no mapping, and the helper only reads
 * the headroom.
 */
static struct slot {
    /* a job without an owner; helpers work on it only while no copy needs them */
    struct gf_job job;
    _Atomic bool taken;
    char *area; /* the reserved address range around `at`; NULL: not reserved, or unmapped */
    size_t area_bytes;
    char *at;
    size_t bytes;
} slots[SLOTS];

static _Atomic uint64_t pending;  /* bytes of mappings that were moved and are not freed yet */
static _Atomic uint64_t read_ns;  /* when the headroom was last read; 0: never */
static _Atomic uint64_t headroom; /* bytes left of memory or of /dev/shm, whichever is less */

/* Reads the headroom, unless another job is reading it (`busy`). */
static void read_headroom(void)
{
    static struct gf_headroom_scratch scratch;
    static _Atomic bool busy;
    struct gf_headroom left;
    struct statfs shm;

    if (gf_exchange_acquire(&busy, true))
        return;
    gf_headroom_read_in(&scratch, "", -1, &left);
    const bool known = left.bytes != GF_HEADROOM_UNKNOWN && statfs("/dev/shm", &shm) == 0;
    gf_store_relaxed(
        &headroom, known ? gf_min(left.bytes, (uint64_t)shm.f_bavail * (uint64_t)shm.f_bsize) : 0);
    gf_store_release(&read_ns, gf_now_ns());
    gf_store_release(&busy, false);
}

static struct slot *take_slot(void)
{
    for (size_t i = 0; i < SLOTS; i++)
        if (!gf_exchange_acquire(&slots[i].taken, true))
            return &slots[i];
    return NULL;
}

static void give_slot(struct slot *slot)
{
    gf_store_release(&slot->taken, false);
}

static void job_done(struct gf_job *job)
{
    struct slot *slot = (struct slot *)job;

    gf_sub_relaxed(&pending, slot->bytes);
    give_slot(slot);
}

/*
 * Makes a raw system call. Only this file uses these addresses, so hooks of munmap must not see the
 * call.
 */
static void unmap_area(struct slot *slot)
{
    if (slot->area)
        syscall(SYS_munmap, slot->area, slot->area_bytes);
    slot->area = NULL;
}

/*
 * Each piece but the last removes the pages of one huge page. The last piece unmaps the area, which
 * frees the file's pages, and reads the headroom again.
 */
static bool do_piece(struct gf_job *job, uint64_t piece)
{
    struct slot *slot = (struct slot *)job;
    const size_t done = (size_t)piece * GF_HUGE_PAGE;

    if (done < slot->bytes) {
        madvise(slot->at + done, gf_min(GF_HUGE_PAGE, slot->bytes - done), MADV_DONTNEED);
    } else {
        unmap_area(slot);
        read_headroom();
    }
    return true;
}

static void hand_over(struct gf_pool *pool, struct slot *slot)
{
    const uint64_t pieces = (slot->bytes + GF_HUGE_PAGE - 1) / GF_HUGE_PAGE + 1;

    slot->job = (struct gf_job){.work = do_piece,
                                .done = job_done,
                                .max_helpers = 1,
                                .low_priority = true,
                                .total = pieces};
    gf_add_relaxed(&pending, slot->bytes);
    gf_pool_open(pool, &slot->job, pieces);
}

/*
 * Whether so much memory is left that no allocation fails if this mapping is freed a moment later.
 * If the headroom was read too long ago, returns false and lets a helper read it again, because
 * reading it opens files, and a hook must open none.
 */
static bool has_headroom(struct gf_pool *pool, size_t bytes)
{
    const uint64_t read = gf_load_acquire(&read_ns);

    if (read && gf_now_ns() - read < GF_TUNE_UNMAP_LATER_NS)
        return gf_load_relaxed(&headroom) / GF_TUNE_UNMAP_LATER_TIMES >= bytes;
    struct slot *slot = take_slot();
    if (slot) {
        slot->bytes = 0;
        hand_over(pool, slot);
    }
    return false;
}

/* Whether RLIMIT_AS is set. A mapping that was moved would still count against this limit. */
static bool is_address_space_limited(void)
{
    struct rlimit space;
    return getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur != RLIM_INFINITY;
}

/*
 * Reserves an address range for a mapping of `bytes` bytes. The new address has the same offset in
 * a huge page as `like`, so that the kernel can move whole page tables.
 */
static bool reserve(struct slot *slot, const char *like, size_t bytes)
{
    slot->area_bytes = bytes + GF_HUGE_PAGE;
    void *area =
        mmap(NULL, slot->area_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED)
        return false;
    madvise(area, slot->area_bytes, MADV_DONTFORK);
    slot->area = area;
    slot->at = slot->area + ((uintptr_t)like - (uintptr_t)area) % GF_HUGE_PAGE;
    slot->bytes = bytes;
    return true;
}

/*
 * Moves the mapping to the slot's area. Calls libc's mremap, because communication libraries hook
 * mremap and munmap to learn which ranges are no longer mapped. A failed mremap may already have
 * unmapped the target range, and another thread may have mapped something at the same addresses. So
 * after a failure the area is not unmapped, and no mapping is moved again. A child that is forked
 * during the move has the mapping at its old address or not at all.
 */
static bool move(struct slot *slot, void *at, size_t bytes)
{
    static _Atomic bool refused;

    if (gf_load_relaxed(&refused) || !reserve(slot, at, bytes))
        return false;
    if (madvise(at, bytes, MADV_DONTFORK) != 0) {
        unmap_area(slot);
        return false;
    }
    if (mremap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, slot->at) == MAP_FAILED) {
        madvise(at, bytes, MADV_DOFORK);
        gf_store_relaxed(&refused, true);
        slot->area = NULL;
        return false;
    }
    /* If the mapping was locked, it would still count against RLIMIT_MEMLOCK. */
    syscall(SYS_munlock, slot->area, slot->area_bytes);
    return true;
}

bool gf_unmap_move(struct gf_pool *pool, void *at, size_t bytes)
{
    const int error = errno;
    struct slot *slot =
        !is_address_space_limited() && has_headroom(pool, bytes) ? take_slot() : NULL;
    const bool moved = slot && move(slot, at, bytes);

    if (moved)
        hand_over(pool, slot);
    else if (slot)
        give_slot(slot);
    errno = error;
    return moved;
}

uint64_t gf_unmap_pending(void)
{
    return gf_load_relaxed(&pending);
}
