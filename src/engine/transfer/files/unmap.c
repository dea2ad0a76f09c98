/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/files/unmap.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "engine/transfer/files/pin_batch.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/pool.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/tuning.h"
#include "os/headroom.h"
#include "os/permit.h"

#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#define SLOTS 2

/*
 * Each slot keeps its file by one of these pages. The library maps them itself, because the program
 * may map memory at any address that was free (MAP_FIXED). They are no data of the engine: a child
 * does not inherit a page that keeps a file, and collectors of garbage or of leaks read all data of
 * libraries. NULL: not mapped yet; a helper maps them before it reads the headroom.
 */
static char *kept_pages;

/*
 * A deleted file that stays open until a helper frees its pages. If `page` is NULL, there is no
 * file, and the helper only reads the headroom.
 */
static struct slot {
    /* a job without an owner; helpers work on it only while no copy needs them */
    struct gf_pieces job;
    _Atomic bool taken;
    void *page; /* a second mapping of the file's first page */
    void *at;   /* the program's mapping */
    size_t bytes;
} slots[SLOTS];

static _Atomic uint64_t pending;  /* bytes of mappings whose files are not freed yet */
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
    if (!kept_pages)
        kept_pages = gf_scratch_take(SLOTS * gf_page_size());
    gf_headroom_read_in(&scratch, "", -1, &left);
    const bool known =
        kept_pages && left.bytes != GF_HEADROOM_UNKNOWN && statfs("/dev/shm", &shm) == 0;
    gf_store_relaxed(
        &headroom, known ? gf_min(left.bytes, (uint64_t)shm.f_bavail * (uint64_t)shm.f_bsize) : 0);
    gf_store_release(&read_ns, gf_now_ns());
    gf_store_release(&busy, false);
}

static struct slot *take_unmap_slot(void)
{
    for (size_t i = 0; i < SLOTS; i++)
        if (!gf_exchange_acquire(&slots[i].taken, true))
            return &slots[i];
    return NULL;
}

static void job_done(struct gf_pieces *job)
{
    struct slot *slot = (struct slot *)job;

    gf_sub_relaxed(&pending, slot->bytes);
    if (slot->page != MAP_FAILED)
        gf_store_release(&slot->taken, false);
}

/*
 * Replaces the page by an empty one. If the kernel refuses that (RLIMIT_MEMLOCK after mlockall), the
 * page is unmapped, and `page` becomes MAP_FAILED: the program may use the address, so the slot is
 * never used again. Makes raw system calls: only this file knows the address, so hooks must not see
 * them.
 */
static void free_page(struct slot *slot)
{
    const long got = syscall(SYS_mmap, slot->page, gf_page_size(), PROT_READ,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0L);
    if (got == (long)slot->page)
        return;
    syscall(SYS_munmap, slot->page, gf_page_size());
    slot->page = MAP_FAILED;
}

/* Frees the file, and reads the headroom again. */
static bool free_file(struct gf_pieces *job, uint64_t piece)
{
    struct slot *slot = (struct slot *)job;

    (void)piece;
    if (slot->page)
        free_page(slot);
    read_headroom();
    return true;
}

static void hand_over(struct slot *slot)
{
    slot->job = (struct gf_pieces){
        .work = free_file, .done = job_done, .max_helpers = 1, .low_priority = true, .total = 1};
    gf_add_relaxed(&pending, slot->bytes);
    gf_pool_open(gf_pool_with_helpers(GF_TUNE_UNMAP_HELPERS), &slot->job, 1);
}

/*
 * Whether so much memory is left that no allocation fails if this mapping's file is freed a moment
 * later. If the headroom was read too long ago, returns false and lets a helper read it again,
 * because reading it opens files, and a hook must open none.
 */
static bool has_headroom(size_t bytes)
{
    const uint64_t read = gf_load_acquire(&read_ns);

    if (read && gf_now_ns() - read < GF_TUNE_UNMAP_LATER_NS)
        return gf_load_relaxed(&headroom) / GF_TUNE_UNMAP_LATER_TIMES >= bytes;
    struct slot *slot = take_unmap_slot();
    if (slot) {
        slot->page = NULL;
        slot->bytes = 0;
        hand_over(slot);
    }
    return false;
}

/*
 * Keeps the file of a whole mapping open by a second mapping of one page, so that munmap does not
 * free the file's pages. Children do not inherit this page: one that is forked now would keep the
 * file as long as it lives. It has the program's mapping not at all, as after the munmap. Returns
 * NULL if little memory is left, the amount of memory left is not known yet, or the kernel refuses.
 * It may then have unmapped the page, and the program may use the address, so the slot is never used
 * again.
 */
static struct slot *keep_file(void *at, size_t bytes)
{
    gf_keep_errno();
    struct slot *slot = has_headroom(bytes) ? take_unmap_slot() : NULL;

    if (!slot || madvise(at, bytes, MADV_DONTFORK) != 0)
        return NULL;
    slot->page = kept_pages + (size_t)(slot - slots) * gf_page_size();
    slot->at = at;
    slot->bytes = bytes;
    /* An old size of 0 maps the pages a second time. */
    if (syscall(SYS_mremap, at, 0, gf_page_size(), MREMAP_MAYMOVE | MREMAP_FIXED, slot->page) ==
        (long)slot->page)
        return slot;
    madvise(at, bytes, MADV_DOFORK);
    return NULL;
}

void gf_unmapped(void *kept, bool failed)
{
    struct slot *slot = kept;

    gf_keep_errno();
    if (failed)
        madvise(slot->at, slot->bytes, MADV_DOFORK);
    hand_over(slot);
}

uint64_t gf_unmap_pending(void)
{
    return gf_load_relaxed(&pending);
}

#define SHM "/dev/shm/"
/* The names that PyTorch gives to the shared memory of its tensors (THManagedMapAllocator). */
#define TENSOR SHM "torch_"
#define NAME_SIZE 256 /* mappings with longer names are left to the program's munmap */

/*
 * Whether the mapping's file is in /dev/shm, by its device. A query of a name takes twice as long as
 * one without.
 */
static bool is_in_shm(const struct gf_vma *vma)
{
    static _Atomic uint64_t device; /* of /dev/shm; 0: not known yet */
    struct stat folder;

    if (!gf_load_relaxed(&device))
        gf_store_relaxed(&device, stat(SHM, &folder) == 0 ? folder.st_dev : UINT64_MAX);
    return gf_load_relaxed(&device) == makedev(vma->major, vma->minor);
}

/*
 * Whether the range lies in one mapping of a tensor's shared memory. Describes that mapping in
 * *ret. The pages of shared memory belong to the file, so removing them from the page tables loses
 * no byte. Removing pages of a private mapping would discard them, even if munmap then failed.
 *
 * Other mappings may be registered with a userfaultfd. A removal of their pages waits until a
 * thread of the program has read the event. If that is the calling thread, the removal never ends.
 * Neither the kernel's description of a mapping nor any other cheap call tells it.
 */
static bool is_tensor(uintptr_t start, uintptr_t end, struct gf_vma *ret, char *name)
{
    return gf_vma_query(start, ret, NULL, 0) == 0 && ret->shared && ret->end >= end &&
           ret->page == gf_page_size() && is_in_shm(ret) &&
           gf_vma_query(start, ret, name, NAME_SIZE) == 0 && ret->end >= end &&
           strncmp(name, TENSOR, strlen(TENSOR)) == 0;
}

/*
 * Whether the mapping's file is deleted. A mapping keeps its file open, and with the file a flock.
 * While the file has a name, other processes may open it and wait for that lock.
 */
static bool is_deleted(const char *name)
{
    static const char deleted[] = " (deleted)";
    const size_t length = strlen(name), end = sizeof(deleted) - 1;

    return length > end && strcmp(name + length - end, deleted) == 0;
}

struct emptying {
    struct gf_pieces job;
    char *at;
    size_t bytes, piece;
};

/*
 * The size of a piece. A sparse mapping may be very large and have few pages, so the number of
 * pieces is limited.
 */
static size_t piece_size(size_t bytes)
{
    return gf_max(GF_TUNE_UNMAP_PIECE, gf_round_up(bytes / GF_TUNE_UNMAP_PIECES, GF_HUGE_PAGE));
}

static bool empty_piece(struct gf_pieces *job, uint64_t piece)
{
    const struct emptying *e = (struct emptying *)job;
    const size_t start = (size_t)piece * e->piece;
    return madvise(e->at + start, gf_min(e->piece, e->bytes - start), MADV_DONTNEED) == 0;
}

void *gf_unmap(void *at, size_t bytes)
{
    const uintptr_t start = (uintptr_t)at, page = gf_page_size();
    struct gf_pool *pool = gf_pool_with_helpers(GF_TUNE_UNMAP_HELPERS);
    struct emptying e = {.job.work = empty_piece, .at = at, .bytes = bytes / page * page};
    struct gf_vma vma;
    char name[NAME_SIZE];

    gf_pin_batch_unmaps(bytes);
    if (gf_permit_sealed() || !pool || start % page || start + bytes < start ||
        !is_tensor(start, start + bytes, &vma, name) ||
        gf_absent_mostly(start, bytes, GF_TUNE_UNMAP_SAMPLES))
        return NULL;
    e.piece = piece_size(e.bytes);
    const uint64_t pieces = (e.bytes + e.piece - 1) / e.piece;
    /* the caller takes one piece */
    e.job.max_helpers = gf_min((unsigned)pieces - 1, gf_max(gf_pool_threads(pool), 2u) - 1);
    /* Pages that are locked cannot be removed, and one that is kept would count against RLIMIT_MEMLOCK. */
    const bool empty = gf_pool_run(pool, &e.job, pieces) == GF_PIECE_NONE;
    return empty && gf_setup.options->unmap == gf_unmap_later && vma.start == start &&
                   vma.end - start == gf_round_up(bytes, page) && is_deleted(name)
               ? keep_file(at, vma.end - start)
               : NULL;
}
