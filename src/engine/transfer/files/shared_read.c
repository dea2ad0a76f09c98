/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/files/shared_read.h"

#include "base/atomic.h"
#include "engine/transfer/context.h"
#include "engine/transfer/files/readahead.h"
#include "engine/transfer/helper.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/pool.h"
#include "engine/transfer/range_policy.h"
#include "engine/transfer/tuning.h"
#include "os/files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

static _Atomic pid_t owner;

void gf_import_owner_set(void)
{
    gf_store_relaxed(&owner, getpid());
}

void gf_import_owner_forked(void)
{
    gf_store_relaxed(&owner, 0);
}

bool gf_import_owner_is_here(void)
{
    return getpid() == gf_load_relaxed(&owner);
}

#define XFS_MAGIC 0x58465342 /* not in linux/magic.h */

static _Atomic unsigned helpers_reading; /* the sum of the helpers of all shared reads */

/* A shared call. Each of its steps is a job of helpers, because they have the file. */
struct shared_read {
    struct gf_pieces job;
    struct gf_pool *pool;
    unsigned helpers; /* how many are reserved */
    int io_priority;  /* the caller's */
    pid_t process, thread;
    int fd;       /* the caller's */
    off_t offset; /* as the caller passed it */
    char *to;
    /* What the first step finds. */
    int file; /* in the helpers' table */
    size_t bytes;
    off_t start;
    bool moved; /* others have moved the offset while this call advanced it */
    /* The last step's. */
    size_t done; /* bytes that were read before it */
    ssize_t result;
    int error;
};

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
 * remembered, because each such answer may be fetched over the network.
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
        return true;
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

/* Returns how many of the wanted bytes the file has now; 0 if so few that sharing does not pay. */
static size_t bytes_at(const struct stat *file, size_t wanted, off_t offset)
{
    if (offset < 0 || offset >= file->st_size)
        return 0;
    const size_t most = gf_min(wanted, (size_t)(file->st_size - offset));
    return most < GF_TUNE_IMPORT_LEAST ? 0 : most;
}

/* The steps. They run on helpers. */

/*
 * Chooses the range to read. For a call at the descriptor's offset, advances the offset over all
 * bytes. The kernel does this in one step, so threads and processes that share the offset read
 * different bytes.
 */
static bool choose_range(struct shared_read *read, const struct stat *file)
{
    const bool advances = read->offset == GF_AT_OFFSET;
    const off_t before = advances ? lseek(read->file, 0, SEEK_CUR) : read->offset;

    read->bytes = bytes_at(file, read->bytes, before);
    read->start = before;
    if (!read->bytes || !advances)
        return read->bytes != 0;
    const off_t end = lseek(read->file, (off_t)read->bytes, SEEK_CUR);
    read->start = end - (off_t)read->bytes;
    read->moved = read->start != before;
    return end >= 0;
}

static bool take_file(struct gf_pieces *job, uint64_t piece)
{
    struct shared_read *read = (struct shared_read *)job;
    struct stat file;

    (void)piece;
    read->file = gf_take_file(read->process, read->thread, read->fd);
    bool ret = read->file >= 0;
    if (ret && (!is_shareable(read->file, &file) || !choose_range(read, &file))) {
        close(read->file);
        ret = false;
    }
    gf_pieces_notify(job);
    return ret;
}

static bool read_range(const struct shared_read *read, size_t done, size_t end)
{
    while (done < end) {
        const ssize_t got =
            pread(read->file, read->to + done, end - done, read->start + (off_t)done);
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static bool read_piece(struct gf_pieces *job, uint64_t piece)
{
    const struct shared_read *read = (struct shared_read *)job;
    const size_t start = (size_t)piece * GF_TUNE_IMPORT_PIECE;
    const size_t end = gf_min(start + GF_TUNE_IMPORT_PIECE, read->bytes);
    bool ret = false;

    if (gf_io_priority_set(read->io_priority)) {
        ret = read_range(read, start, end);
        gf_io_priority_restore();
    }
    gf_pieces_notify(job);
    return ret;
}

/*
 * Sets the offset back by the bytes that were advanced over but not read. If another thread has moved
 * the offset during the call, it stays: that thread may have set it. If others moved it while
 * choose_range advanced it, this call planned for bytes that they got, and may have advanced it
 * beyond the end of the file. Then it is set back in any case.
 */
static void set_back(const struct shared_read *read)
{
    const off_t missing = (off_t)read->bytes - gf_max(read->result, (ssize_t)0);

    if (missing &&
        (read->moved || lseek(read->file, 0, SEEK_CUR) == read->start + (off_t)read->bytes))
        lseek(read->file, -missing, SEEK_CUR);
}

/*
 * Makes the rest of the call by one system call, after a piece has failed. So the kernel decides on
 * result and errno. It reports an error only if the call has read no byte.
 */
static bool finish_read(struct gf_pieces *job, uint64_t piece)
{
    struct shared_read *read = (struct shared_read *)job;
    ssize_t rest = 0;

    (void)piece;
    if (read->done < read->bytes) {
        const bool as_caller = gf_io_priority_set(read->io_priority);
        rest = pread(read->file, read->to + read->done, read->bytes - read->done,
                     read->start + (off_t)read->done);
        read->error = errno;
        if (as_caller)
            gf_io_priority_restore();
    }
    read->result = rest < 0 && !read->done ? -1 : (ssize_t)read->done + gf_max(rest, (ssize_t)0);
    if (read->offset == GF_AT_OFFSET)
        set_back(read);
    close(read->file);
    gf_pieces_notify(job);
    return true;
}

/* The calling thread. */

/* Returns whether all pieces were done, and in *ret the first one that was not. */
static bool run_step(struct shared_read *read, bool (*work)(struct gf_pieces *, uint64_t),
                     uint64_t pieces, uint64_t patience_ns, uint64_t *ret)
{
    read->job = (struct gf_pieces){.work = work, .max_helpers = read->helpers};
    *ret = gf_pool_run_by_helpers(read->pool, &read->job, pieces, patience_ns);
    return *ret == GF_PIECE_NONE;
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

/*
 * Whether a part of the target is a mapping of the file, or may be a second mapping of another part. The
 * kernel reads in order, so a program may move a file's bytes to lower offsets by one read, and the last
 * bytes stay in memory that is mapped twice. Before Linux 6.11 the library does not notice that.
 */
static bool needs_order(const struct stat *file, const void *target, size_t bytes)
{
    const uintptr_t start = (uintptr_t)target;
    struct gf_vma vma;

    for (uintptr_t at = start; at - start < bytes && gf_vma_query(at, &vma, NULL, 0) == 0;
         at = vma.end)
        if (vma.shared && (vma.inode == file->st_ino || at != start || vma.end - at < bytes))
            return true;
    return false;
}

/*
 * Whether the call should be shared, if the descriptor stays what it is. Helpers may place the pages
 * of the target, so nothing is shared if the user chose a policy, or if there are pools on several
 * nodes. A real-time thread would wait for ordinary ones.
 */
static bool may_share(const struct shared_read *read)
{
    struct stat file;

    return read->pool && gf_pool_is_apart(read->pool) && gf_pool_threads(read->pool) > 2 &&
           gf_take_file_is_possible() && !gf_context_nodes_differ() &&
           is_shareable(read->fd, &file) && !needs_order(&file, read->to, read->bytes) &&
           bytes_at(&file, read->bytes,
                    read->offset == GF_AT_OFFSET ? lseek(read->fd, 0, SEEK_CUR) : read->offset) &&
           !gf_is_realtime() && !gf_range_policy_is_users() &&
           gf_io_priority_is_for_all(read->io_priority);
}

/*
 * Makes the steps. In a child that a handler of a signal has forked within them, which has neither
 * helpers nor the file, the call is made natively, for the range that its parent has chosen.
 */
static bool make_steps(struct shared_read *read)
{
    uint64_t undone;

    if (!run_step(read, take_file, 1, GF_TUNE_READ_PATIENCE_NS, &undone))
        return false;
    const uint64_t pieces = (read->bytes + GF_TUNE_IMPORT_PIECE - 1) / GF_TUNE_IMPORT_PIECE;
    read->done = run_step(read, read_piece, pieces, UINT64_MAX, &undone)
                     ? read->bytes
                     : (size_t)undone * GF_TUNE_IMPORT_PIECE;
    if (gf_import_owner_is_here() && run_step(read, finish_read, 1, UINT64_MAX, &undone))
        return true;
    read->result = pread(read->fd, read->to, read->bytes, read->start);
    read->error = errno;
    read->done = 0;
    return true;
}

bool gf_shared_read(int fd, char *to, size_t bytes, off_t offset, ssize_t *ret, size_t *ret_shared)
{
    struct shared_read read = {.pool = gf_pool_with_helpers(2),
                               .io_priority = gf_io_priority_get(),
                               .process = getpid(),
                               .thread = (pid_t)syscall(SYS_gettid),
                               .fd = fd,
                               .offset = offset,
                               .to = to,
                               .bytes = bytes};

    if (!may_share(&read))
        return false;
    read.helpers = reserve_helpers(read.pool);
    const bool shared = read.helpers > 1 && make_steps(&read);
    gf_sub_relaxed(&helpers_reading, read.helpers);
    if (!shared)
        return false;
    *ret = read.result;
    *ret_shared = read.done;
    errno = read.error;
    return true;
}
