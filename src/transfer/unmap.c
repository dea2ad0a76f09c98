/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/unmap.h"

#include "transfer/aside.h"
#include "transfer/pool.h"
#include "transfer/procmap.h"
#include "transfer/tuning.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHM "/dev/shm/"

/*
 * Taking pages of such a mapping out of the tables loses nothing: they are the file's. Of any other kind
 * it might: private ones would be gone if munmap then failed, a device's are its driver's to say.
 */
static bool is_shared_memory(uintptr_t start, uintptr_t end, struct gf_procmap *ret)
{
    static const char *const names[] = {SHM, "/memfd:", "/dev/zero", "/SYSV"};

    if (!gf_procmap_read(start, ret) || !ret->shared || ret->end < end ||
        ret->page != (size_t)sysconf(_SC_PAGESIZE))
        return false;
    for (size_t i = 0; i < GF_ARRAY_LEN(names); i++)
        if (strncmp(ret->name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/*
 * One that nobody can open any more: while it is mapped so are its lock (flock) and its being open for
 * writing, which others would meet.
 */
static bool is_nameless_shm(const struct gf_procmap *map)
{
    static const char deleted[] = " (deleted)";
    const size_t length = strlen(map->name), end = sizeof(deleted) - 1;

    return strncmp(map->name, SHM, strlen(SHM)) == 0 && length > end &&
           strcmp(map->name + length - end, deleted) == 0;
}

struct emptying {
    struct gf_job job;
    char *at;
    size_t bytes;
};

static bool empty_piece(struct gf_job *job, uint64_t piece)
{
    const struct emptying *e = (struct emptying *)job;
    const size_t start = (size_t)piece * GF_TUNE_UNMAP_PIECE;
    return madvise(e->at + start, gf_min(GF_TUNE_UNMAP_PIECE, e->bytes - start), MADV_DONTNEED) == 0;
}

bool gf_unmap(void *at, size_t bytes)
{
    const uintptr_t start = (uintptr_t)at, page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct gf_pool *pool = gf_pool_awake(GF_TUNE_UNMAP_HELPERS);
    struct emptying e = {.job.work = empty_piece, .at = at, .bytes = bytes / page * page};
    struct gf_procmap map;

    if (!pool || start % page || start + bytes < start || !is_shared_memory(start, start + bytes, &map))
        return false;
    if (map.start == start && map.end - start == (bytes + page - 1) / page * page &&
        is_nameless_shm(&map) && gf_aside_move(pool, at, map.end - start))
        return true;
    gf_pool_run(pool, &e.job, (e.bytes + GF_TUNE_UNMAP_PIECE - 1) / GF_TUNE_UNMAP_PIECE);
    return false;
}
