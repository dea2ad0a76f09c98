/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/shm/unmap.h"

#include "engine/transfer/memory/page.h"
#include "engine/transfer/memory/vma_query.h"
#include "engine/transfer/pool/pool.h"
#include "engine/transfer/setup/setup.h"
#include "engine/transfer/setup/tuning.h"
#include "engine/transfer/shm/unmap_later.h"

#include "os/permit.h"
#include "os/userfault.h"

#include <string.h>
#include <sys/mman.h>

#define SHM "/dev/shm/"
#define NAME_SIZE 256 /* mappings with longer names are left to the program's munmap */

/*
 * Whether the range lies in one mapping of shared memory. Describes that mapping in *ret. The pages
 * of shared memory belong to the file, so removing them from the page tables loses no byte.
 * Removing pages of a private mapping would discard them, even if munmap then failed. Pages of a
 * device's mapping depend on the device's driver, so they are not removed.
 */
static bool is_shared_memory(uintptr_t start, uintptr_t end, struct gf_vma *ret, char *name)
{
    static const char *const prefixes[] = {SHM, "/memfd:", "/dev/zero", "/SYSV"};

    if (gf_vma_query(start, ret, name, NAME_SIZE) != 0 || !ret->shared || ret->end < end ||
        ret->page != gf_page_size())
        return false;
    for (size_t i = 0; i < GF_ARRAY_LEN(prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/*
 * Whether the mapping's file is deleted. A mapping keeps its file open, and with the file a flock.
 * While the file has a name, other processes may open it and wait for that lock.
 */
static bool is_deleted_shm(const char *name)
{
    static const char deleted[] = " (deleted)";
    const size_t length = strlen(name), end = sizeof(deleted) - 1;

    return strncmp(name, SHM, strlen(SHM)) == 0 && length > end &&
           strcmp(name + length - end, deleted) == 0;
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
        !is_shared_memory(start, start + bytes, &vma, name) || gf_userfault_may_be_open())
        return false;
    if (gf_setup.options->unmap == gf_unmap_later && vma.start == start &&
        vma.end - start == gf_round_up(bytes, page) && is_deleted_shm(name) &&
        gf_unmap_move(pool, at, vma.end - start))
        return true;
    e.piece = piece_size(e.bytes);
    const uint64_t pieces = (e.bytes + e.piece - 1) / e.piece;
    /* the caller takes one piece */
    e.job.max_helpers = gf_min((unsigned)pieces - 1, gf_max(gf_pool_threads(pool), 2u) - 1);
    gf_pool_run(pool, &e.job, pieces);
    return false;
}
