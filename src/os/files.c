/* SPDX-License-Identifier: Apache-2.0 */
#include "os/files.h"

#include "base/atomic.h"
#include "os/own_table.h"
#include "os/permit.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>

/*
 * The number of a kept descriptor is at least MOST - BELOW, if the limit of open files allows it.
 * Such a number is above those that programs usually choose, and below FD_SETSIZE.
 */
#define MOST 1024
#define BELOW 64L
/* Below this limit, a program may need every descriptor, so no file is kept. */
#define LIMIT_LEAST 256

static bool is_file(int fd, const struct stat *wanted)
{
    struct stat found;

    return syscall(SYS_fstat, fd, &found) == 0 && found.st_dev == wanted->st_dev &&
           found.st_ino == wanted->st_ino;
}

static void set_limit(rlim_t soft, rlim_t hard)
{
    const struct rlimit limit = {soft, hard};
    syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, NULL);
}

/*
 * Duplicates the descriptor to a high number. While the process has one thread and the soft limit is
 * at most MOST, the number is above the soft limit, so that the program can open as many files as
 * without the library. The limit is raised for the call. Another thread could read the raised limit,
 * so in a process with several threads the number is below the limit.
 */
static long duplicate_high(long low)
{
    struct rlimit limit = {.rlim_cur = MOST, .rlim_max = MOST};

    syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
    const long soft = (long)gf_min(limit.rlim_cur, (rlim_t)MOST);
    if (!__libc_single_threaded || limit.rlim_cur > MOST)
        return soft < LIMIT_LEAST ? -1 : syscall(SYS_fcntl, low, F_DUPFD_CLOEXEC, soft - BELOW);
    if (limit.rlim_max == limit.rlim_cur)
        return -1;
    set_limit(gf_min(limit.rlim_max, limit.rlim_cur + BELOW), limit.rlim_max);
    const long high = syscall(SYS_fcntl, low, F_DUPFD_CLOEXEC, soft);
    set_limit(limit.rlim_cur, limit.rlim_max);
    return high;
}

/*
 * Opens the file, and returns a descriptor with a high number. The number that openat returns is
 * low, and the program may replace this descriptor at any time. So the file's identity is read by
 * its path, and the low descriptor is closed only if it still refers to this file.
 */
static long open_high(const char *path, struct stat *ret)
{
    const long low = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    long high = -1;

    if (low < 0)
        return -1;
    if (syscall(SYS_newfstatat, AT_FDCWD, path, ret, 0) == 0 && is_file((int)low, ret))
        high = duplicate_high(low);
    if (is_file((int)low, ret))
        syscall(SYS_close, low);
    return high >= 0 && is_file((int)high, ret) ? high : -1;
}

int gf_kept_file_get(const struct gf_kept_file *file)
{
    gf_keep_errno();
    const int fd = gf_load_acquire(&file->fd);
    const struct stat wanted = {.st_dev = gf_load_relaxed(&file->device),
                                .st_ino = gf_load_relaxed(&file->inode)};
    const bool same = fd >= 0 &&
                      (file->everywhere || gf_load_relaxed(&file->process) == getpid()) &&
                      is_file(fd, &wanted);

    return same ? fd : -1;
}

void gf_kept_file_open(struct gf_kept_file *file)
{
    gf_keep_errno();
    struct stat found = {0};

    if (gf_kept_file_get(file) >= 0 || gf_permit_sealed() ||
        atomic_flag_test_and_set_explicit(&file->opening, memory_order_acquire))
        return;
    const long fd = open_high(file->path, &found);
    if (fd >= 0) {
        gf_store_relaxed(&file->process, getpid());
        gf_store_relaxed(&file->device, found.st_dev);
        gf_store_relaxed(&file->inode, found.st_ino);
        gf_store_release(&file->fd, (int)fd);
    }
    atomic_flag_clear_explicit(&file->opening, memory_order_release);
}

void gf_kept_file_close_in_child(struct gf_kept_file *file)
{
    gf_keep_errno();
    const struct stat wanted = {.st_dev = gf_load_relaxed(&file->device),
                                .st_ino = gf_load_relaxed(&file->inode)};
    const int fd = gf_load_acquire(&file->fd);

    if (fd >= 0 && !gf_permit_sealed() && is_file(fd, &wanted))
        syscall(SYS_close, fd);
    gf_store_relaxed(&file->fd, -1);
}

struct replacement {
    const char *path, *bytes; /* bytes: NULL to remove the file */
    size_t length;
    enum gf_output_flags flags;
    struct gf_replaced *replaced;
    int error;
};

static void run_replacement(void *closure)
{
    struct replacement *one = closure;

    if (one->bytes)
        one->error =
            gf_output_replace_seen(one->path, one->bytes, one->length, one->flags, one->replaced);
    else if ((one->error = gf_output_remove(one->path)) == -ELOOP)
        one->error = gf_output_replace(one->path, "", 0, one->flags);
}

/*
 * If no thread with its own descriptor table can be started, the calling thread writes the file,
 * because the user has requested it.
 */
int gf_replace_file(const char *path, const char *bytes, size_t length, enum gf_output_flags flags,
                    struct gf_replaced *ret)
{
    struct replacement replacement = {path, bytes, length, flags, ret, 0};

    if (!gf_own_table_run_as(gf_server_writes, run_replacement, &replacement))
        run_replacement(&replacement);
    return replacement.error;
}

static _Atomic bool refused;

bool gf_take_file_is_possible(void)
{
    return gf_permit(gf_permit_take_file) && !gf_load_relaxed(&refused);
}

/*
 * pidfd_getfd reads the table of the process's first thread. A thread that leaves this table never
 * shares it again. So if it shares the table now, it did so when the file was taken.
 */
static bool shares_table(pid_t process, pid_t thread)
{
    return thread == process || syscall(SYS_kcmp, process, thread, KCMP_FILES, 0UL, 0UL) == 0;
}

static long take(pid_t process, int fd)
{
    const long of = syscall(SYS_pidfd_open, process, 0);
    long ret = of;

    if (of >= 0) {
        ret = syscall(SYS_pidfd_getfd, of, fd, 0);
        gf_keep_errno();
        syscall(SYS_close, of);
    }
    if (ret < 0 && (errno == ENOSYS || errno == EPERM))
        gf_store_relaxed(&refused, true);
    return ret;
}

int gf_take_file(pid_t process, pid_t thread, int fd)
{
    const long ret = take(process, fd);

    if (ret < 0)
        return -errno;
    if (shares_table(process, thread))
        return (int)ret;
    syscall(SYS_close, ret);
    return -EBADF;
}
