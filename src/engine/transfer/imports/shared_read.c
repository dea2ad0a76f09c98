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
#include <pthread.h>
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

static bool read_piece(struct gf_job *job, uint64_t piece)
{
    const struct shared_read *read = (struct shared_read *)job;
    size_t done = (size_t)piece * GF_TUNE_IMPORT_PIECE;
    const size_t end = gf_min(done + GF_TUNE_IMPORT_PIECE, read->bytes);

    if (GF_MUTATED(skips_a_read) && piece == 1)
        return true;
    /*
     * Another thread may have replaced the descriptor. A helper may have another descriptor table
     * than the caller, which may have called unshare(CLONE_FILES).
     */
    if (!gf_shared_read_is_file(read->fd, &read->file) ||
        (read->caller != &here && !gf_io_priority_set(read->io_priority)))
        return false;
    while (done < end) {
        const ssize_t got =
            pread(read->fd, read->to + done, end - done, read->offset + (off_t)done);
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static bool has_local_type(int fd)
{
    static const unsigned long types[] = {TMPFS_MAGIC,      EXT4_SUPER_MAGIC,
                                          XFS_MAGIC,        BTRFS_SUPER_MAGIC,
                                          F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC};
    struct statfs file_system;

    if (fstatfs(fd, &file_system) != 0)
        return false;
    for (size_t i = 0; i < GF_ARRAY_LEN(types); i++)
        if ((unsigned long)file_system.f_type == types[i])
            return true;
    return false;
}

/*
 * Whether the file system is one of this machine. The last answer is kept, because a file system of
 * another machine would be asked over the network.
 */
static bool is_local(int fd, dev_t device)
{
    static _Atomic uint64_t known; /* twice the device's number, plus 1 if it is local; 0: none */
    uint64_t answer = gf_load_relaxed(&known);

    if (!answer || answer / 2 != (device & (UINT64_MAX / 2))) {
        answer = (uint64_t)device * 2 + has_local_type(fd);
        gf_store_relaxed(&known, answer);
    }
    return answer & 1;
}

/* Whether reads of this descriptor may be shared. */
static bool is_shareable(int fd, struct stat *ret_file)
{
    if (fstat(fd, ret_file) != 0 || !S_ISREG(ret_file->st_mode) || !is_local(fd, ret_file->st_dev))
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

size_t gf_shared_read_most(int fd, size_t bytes, off_t offset, struct gf_shared_file *ret_file)
{
    struct stat file;

    if (!pool_for(fd, offset, &file))
        return 0;
    *ret_file = (struct gf_shared_file){file.st_dev, file.st_ino};
    return gf_min(bytes, (size_t)(file.st_size - offset));
}

static size_t run(struct gf_pool *pool, struct shared_read *read)
{
    const uint64_t pieces = (read->bytes + GF_TUNE_IMPORT_PIECE - 1) / GF_TUNE_IMPORT_PIECE;
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    const uint64_t failed = gf_pool_run(pool, &read->job, pieces);
    pthread_setcancelstate(cancel, NULL);
    return failed == GF_PIECE_NONE ? read->bytes : (size_t)failed * GF_TUNE_IMPORT_PIECE;
}

size_t gf_shared_read(int fd, char *to, size_t bytes, off_t offset)
{
    struct stat file;
    struct gf_pool *pool = pool_for(fd, offset, &file);
    const int io_priority = pool ? gf_io_priority_get() : GF_IO_PRIORITY_UNKNOWN;
    const unsigned helpers = io_priority != GF_IO_PRIORITY_UNKNOWN ? reserve_helpers(pool) : 0;

    if (!helpers)
        return 0;
    struct shared_read read = {
        .job = {.work = read_piece, .max_helpers = helpers},
        .fd = fd,
        .file = {file.st_dev, file.st_ino},
        .to = to,
        .bytes = gf_min(bytes, (size_t)(file.st_size - offset)),
        .offset = offset,
        .caller = &here,
        .io_priority = io_priority,
    };
    const size_t done = run(pool, &read);
    gf_sub_relaxed(&helpers_reading, helpers);
    return done;
}
