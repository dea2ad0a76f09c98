/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/shm/unmap.h"

#include "engine/transfer/pages.h"
#include "engine/transfer/pool.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/tuning.h"
#include "engine/transfer/shm/unmap_later.h"

#include "os/permit.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

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
    struct gf_job job;
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

static bool empty_piece(struct gf_job *job, uint64_t piece)
{
    const struct emptying *e = (struct emptying *)job;
    const size_t start = (size_t)piece * e->piece;
    return madvise(e->at + start, gf_min(e->piece, e->bytes - start), MADV_DONTNEED) == 0;
}

bool gf_unmap(void *at, size_t bytes)
{
    const uintptr_t start = (uintptr_t)at, page = gf_page_size();
    struct gf_pool *pool = gf_pool_with_helpers(GF_TUNE_UNMAP_HELPERS);
    struct emptying e = {.job.work = empty_piece, .at = at, .bytes = bytes / page * page};
    struct gf_vma vma;
    char name[NAME_SIZE];

    if (gf_permit_sealed() || !pool || start % page || start + bytes < start ||
        !is_tensor(start, start + bytes, &vma, name) ||
        gf_absent_mostly(start, bytes, GF_TUNE_UNMAP_SAMPLES))
        return false;
    if (gf_setup.options->unmap == gf_unmap_later && vma.start == start &&
        vma.end - start == gf_round_up(bytes, page) && is_deleted(name) &&
        gf_unmap_move(pool, at, vma.end - start))
        return true;
    e.piece = piece_size(e.bytes);
    const uint64_t pieces = (e.bytes + e.piece - 1) / e.piece;
    /* the caller takes one piece */
    e.job.max_helpers = gf_min((unsigned)pieces - 1, gf_max(gf_pool_threads(pool), 2u) - 1);
    gf_pool_run(pool, &e.job, pieces);
    return false;
}
