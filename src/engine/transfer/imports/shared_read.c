/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/imports/shared_read.h"

#include "base/atomic.h"
#include "engine/transfer/context/context.h"
#include "engine/transfer/memory/range_policy.h"
#include "engine/transfer/pool/pool.h"
#include "engine/transfer/pool/realtime.h"
#include "engine/transfer/readahead/io_priority.h"
#include "engine/transfer/setup/mutation.h"
#include "engine/transfer/setup/tuning.h"
#include "os/permit.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define XFS_MAGIC 0x58465342 /* not in linux/magic.h */

static __thread char here; /* its address identifies a thread */

static _Atomic unsigned helpers_reading; /* the sum of max_helpers of all shared reads */

struct shared_read {
    struct gf_job job;
    int fd;
    struct gf_shared_file file;
    char *to;
    size_t bytes;
    off_t offset;
    const char *caller;
    int io_priority; /* the caller's */
};

bool gf_shared_read_is_file(int fd, const struct gf_shared_file *file)
{
    struct stat now;

    return GF_MUTATED(reads_any_descriptor) ||
           (fstat(fd, &now) == 0 && now.st_dev == file->device && now.st_ino == file->inode);
}

/*
 * Reads a piece. The descriptor must be the same file before and after, because another thread may
 * replace it, and because a helper may have another descriptor table than the caller, which may have
 * called unshare(CLONE_FILES).
 */
static bool read_range(const struct shared_read *read, size_t done, size_t end)
{
    if (!gf_shared_read_is_file(read->fd, &read->file))
        return false;
    while (done < end) {
        const ssize_t got =
            pread(read->fd, read->to + done, end - done, read->offset + (off_t)done);
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return gf_shared_read_is_file(read->fd, &read->file);
}

static bool read_piece(struct gf_job *job, uint64_t piece)
{
    const struct shared_read *read = (struct shared_read *)job;
    const size_t start = (size_t)piece * GF_TUNE_IMPORT_PIECE;
    const size_t end = gf_min(start + GF_TUNE_IMPORT_PIECE, read->bytes);

    if (GF_MUTATED(skips_a_read) && piece == 1)
        return true;
    if (read->caller == &here)
        return read_range(read, start, end);
    if (!gf_io_priority_set(read->io_priority))
        return false;
    const bool ret = read_range(read, start, end);
    gf_io_priority_restore();
    return ret;
}

static bool is_local_type(unsigned long type)
{
    static const unsigned long types[] = {TMPFS_MAGIC,      EXT4_SUPER_MAGIC,
                                          XFS_MAGIC,        BTRFS_SUPER_MAGIC,
                                          F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC};

    for (size_t i = 0; i < GF_ARRAY_LEN(types); i++)
        if (type == types[i])
            return true;
    return false;
}

/*
 * Whether the file is on a file system of this machine. The last device for which this was false is
 * remembered, because each such answer may be fetched over the network. False also for a file of an
 * overlayfs with several links: if another process opens it for writing, its inode number changes,
 * as if the descriptor had been replaced.
 */
static bool is_local(int fd, const struct stat *file)
{
    static _Atomic uint64_t remote; /* the device's number plus 1; 0: none */
    struct statfs file_system;

    if (gf_load_relaxed(&remote) == (uint64_t)file->st_dev + 1)
        return false;
    if (fstatfs(fd, &file_system) != 0)
        return false;
    if (is_local_type((unsigned long)file_system.f_type))
        return file_system.f_type != OVERLAYFS_SUPER_MAGIC || file->st_nlink == 1;
    gf_store_relaxed(&remote, (uint64_t)file->st_dev + 1);
    return false;
}

/* Whether reads of this descriptor may be shared. */
static bool is_shareable(int fd, struct stat *ret_file)
{
    if (fstat(fd, ret_file) != 0 || !S_ISREG(ret_file->st_mode) || !is_local(fd, ret_file))
        return false;
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && !(flags & (O_DIRECT | O_PATH)) && (flags & O_ACCMODE) != O_WRONLY;
}

/*
 * The first pool with helpers, or NULL if this read is not shared. Helpers may place the pages of
 * the target, so nothing is shared if the user chose a policy, or if there are pools on several
 * nodes. A real-time thread would wait for ordinary ones.
 */
static struct gf_pool *pool_for(int fd, off_t offset, struct stat *ret_file)
{
    struct gf_pool *pool = gf_pool_with_helpers(1);

    return pool && gf_pool_threads(pool) > 1 && !gf_permit_sealed() && offset >= 0 &&
                   !gf_context_nodes_differ() && is_shareable(fd, ret_file) &&
                   offset < ret_file->st_size && !gf_is_realtime() && !gf_range_policy_is_users()
               ? pool
               : NULL;
}

/*
 * Reserves helpers for one read, and returns their number. Reads from a slow disk keep helpers
 * waiting, so a part of the helpers is left to copies.
 */
static unsigned reserve_helpers(const struct gf_pool *pool)
{
    const unsigned all = gf_pool_helpers(pool);
    const unsigned most = all > 2 * GF_TUNE_READ_SPARED ? all - GF_TUNE_READ_SPARED : (all + 1) / 2;
    const unsigned before = gf_add_relaxed(&helpers_reading, GF_TUNE_READ_HELPERS);
    const unsigned ret = before < most ? gf_min(most - before, (unsigned)GF_TUNE_READ_HELPERS) : 0;

    gf_sub_relaxed(&helpers_reading, GF_TUNE_READ_HELPERS - ret);
    return ret;
}

bool gf_shared_read_plan(int fd, size_t bytes, off_t offset, struct gf_shared_plan *ret)
{
    struct stat file;
    struct gf_pool *pool = pool_for(fd, offset, &file);
    const size_t most = pool ? gf_min(bytes, (size_t)(file.st_size - offset)) : 0;
    const int io_priority =
        most < GF_TUNE_IMPORT_LEAST ? GF_IO_PRIORITY_UNKNOWN : gf_io_priority_get();

    if (!gf_io_priority_is_for_all(io_priority))
        return false;
    *ret = (struct gf_shared_plan){.pool = pool,
                                   .helpers = reserve_helpers(pool),
                                   .io_priority = io_priority,
                                   .file = {file.st_dev, file.st_ino},
                                   .bytes = most};
    return ret->helpers > 0;
}

void gf_shared_read_drop(const struct gf_shared_plan *plan)
{
    gf_sub_relaxed(&helpers_reading, plan->helpers);
}

size_t gf_shared_read(const struct gf_shared_plan *plan, int fd, char *to, off_t offset)
{
    struct shared_read read = {
        .job = {.work = read_piece, .max_helpers = plan->helpers},
        .fd = fd,
        .file = plan->file,
        .to = to,
        .bytes = plan->bytes,
        .offset = offset,
        .caller = &here,
        .io_priority = plan->io_priority,
    };
    const uint64_t pieces = (read.bytes + GF_TUNE_IMPORT_PIECE - 1) / GF_TUNE_IMPORT_PIECE;
    const uint64_t failed = gf_pool_run(plan->pool, &read.job, pieces);

    gf_shared_read_drop(plan);
    return failed == GF_PIECE_NONE ? read.bytes : (size_t)failed * GF_TUNE_IMPORT_PIECE;
}
