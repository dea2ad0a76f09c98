/* SPDX-License-Identifier: Apache-2.0 */
#include "base/input_file.h"

#include "base/atomic.h"
#include "base/fmt.h"
#include "base/output_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

static int open_at(int folder, const char *path, int flags)
{
    const long fd = syscall(SYS_openat, folder, path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

/*
 * Whether the path leads to this pipe by links that are followed to output files. Another user may have
 * planted a link, or a second name, of a pipe whose bytes a service waits for.
 */
static bool is_own_name(const char *path, const struct stat *pipe)
{
    struct stat found;
    const int name = pipe->st_nlink > 1 ? -1 : gf_output_find(path);
    const bool ret = name >= 0 && !syscall(SYS_newfstatat, name, "", &found, AT_EMPTY_PATH) &&
                     found.st_dev == pipe->st_dev && found.st_ino == pipe->st_ino;

    if (name >= 0)
        syscall(SYS_close, name);
    return ret;
}

static bool is_trusted_pipe(const char *path, int name, const struct stat *found)
{
    struct statfs system;

    if (!S_ISFIFO(found->st_mode) || syscall(SYS_fstatfs, name, &system) || gf_is_served(name))
        return false;
    return system.f_type == PIPEFS_MAGIC ||
           (gf_is_trusted_owner(found) && is_own_name(path, found));
}

/*
 * Whether the kernel makes the file up, or its bytes are reserved huge pages: if another user truncates such a
 * file while it is mapped, no page can be mapped in place of its bytes.
 */
static bool is_of_kernel(int name)
{
    struct statfs system;

    /* fstatfs may fail for a file system of FUSE, but not for one of the kernel's. */
    return !syscall(SYS_fstatfs, name, &system) &&
           (system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC ||
            system.f_type == EFIVARFS_MAGIC || system.f_type == TRACEFS_MAGIC ||
            system.f_type == DEBUGFS_MAGIC || system.f_type == HUGETLBFS_MAGIC);
}

/* Returns the flags to open the file again, or -errno. */
static int check_type(const char *path, int name, bool is_named)
{
    struct stat found;

    if (syscall(SYS_newfstatat, name, "", &found, AT_EMPTY_PATH))
        return -errno;
    if (is_named && is_trusted_pipe(path, name, &found))
        return O_RDONLY;
    if (!S_ISREG(found.st_mode))
        return S_ISDIR(found.st_mode) ? -EISDIR : -EINVAL;
    if (is_of_kernel(name) && !(is_named && is_own_name(path, &found)))
        return -EINVAL;
    return O_RDONLY | O_NONBLOCK | O_NOCTTY;
}

/* Opens again, for reading, the file that `name` has opened with O_PATH. Closes `name`. */
static int open_again(int name, const char *path, bool is_named)
{
    char again[48];

    if (name < 0)
        return name;
    gf_fmt(again, sizeof(again), "/proc/thread-self/fd/%d", name);
    int result = check_type(path, name, is_named);
    if (result >= 0)
        result = open_at(AT_FDCWD, again, result);
    syscall(SYS_close, name);
    return result;
}

int gf_input_open(const char *path)
{
    return open_again(open_at(AT_FDCWD, path, O_PATH), path, false);
}

/*
 * Whether no other user's server need answer. A recording may have thousands of files, so mountinfo is read
 * again only for another device.
 */
static bool is_answered(int fd)
{
    static _Atomic uint64_t answered; /* the last device */
    struct statx found;

    const bool known = !syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0U, &found);
    const uint64_t device = known ? makedev(found.stx_dev_major, found.stx_dev_minor) : 0;
    if (device && gf_load_relaxed(&answered) == device)
        return true;
    if (gf_is_served(fd))
        return false;
    gf_store_relaxed(&answered, device);
    return true;
}

/* Walks along the path, of which no part may be a link or "..". Closes `folder`. */
static int open_without_links(int folder, const char *path, int flags)
{
    char name[NAME_MAX + 1];

    for (path += strspn(path, "/"); folder >= 0 && *path;) {
        const size_t length = strcspn(path, "/");
        const size_t next = length + strspn(path + length, "/");
        int fd = -EXDEV;
        gf_fmt(name, sizeof(name), "%.*s", (int)gf_min(length, (size_t)NAME_MAX), path);
        if (length <= NAME_MAX && strcmp(name, "..") != 0)
            fd = open_at(folder, name, O_NOFOLLOW | O_PATH | (path[next] ? O_DIRECTORY : flags));
        if (fd >= 0 && !is_answered(fd)) {
            syscall(SYS_close, fd);
            fd = -EXDEV;
        }
        syscall(SYS_close, folder);
        folder = fd;
        path += next;
    }
    return folder;
}

#define TRIES 100 /* the kernel gives up at ".." if a folder of the system is renamed meanwhile */

/*
 * Opens a file with O_PATH. In its path, and in links, the folder `root` is "/". Leads to no other file system, and to
 * none that another user serves by FUSE, because its server need not answer.
 */
static int open_name_in(const char *root, const char *path, int flags)
{
    const struct open_how how = {.flags = (unsigned)flags | O_PATH | O_CLOEXEC,
                                 .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_XDEV};
    const int folder = open_at(AT_FDCWD, root, O_PATH | O_DIRECTORY);
    long fd = folder < 0 ? folder : is_answered(folder) ? -EAGAIN : -EACCES;

    for (unsigned i = 0; i < TRIES && fd == -EAGAIN; i++) {
        fd = syscall(SYS_openat2, folder, path, &how, sizeof(how));
        fd = fd < 0 ? -errno : fd;
    }
    if (fd == -ENOSYS || fd == -EPERM) /* before Linux 5.6, and in some sandboxes */
        return open_without_links(folder, path, flags);
    if (folder >= 0)
        syscall(SYS_close, folder);
    return (int)fd;
}

int gf_input_open_in(const char *root, const char *path)
{
    return open_again(open_name_in(root, path, 0), path, false);
}

bool gf_input_access_in(const char *root, const char *path, int mode)
{
    char again[48];
    const int name = *root ? open_name_in(root, path, 0) : -1;

    gf_fmt(again, sizeof(again), "/proc/thread-self/fd/%d", name);
    const bool may =
        (name >= 0 || !*root) && !syscall(SYS_faccessat, AT_FDCWD, *root ? again : path, mode);
    if (name >= 0)
        syscall(SYS_close, name);
    return may;
}

DIR *gf_input_folder_in(const char *root, const char *path)
{
    if (!*root)
        return opendir(path);
    const int name = open_name_in(root, path, O_DIRECTORY);
    const int fd = name < 0 ? name : open_at(name, ".", O_RDONLY | O_DIRECTORY);
    DIR *const folder = fd < 0 ? NULL : fdopendir(fd);

    if (name >= 0)
        syscall(SYS_close, name);
    if (fd >= 0 && !folder)
        syscall(SYS_close, fd);
    return folder;
}

void gf_folder_close(const struct gf_folder *folder)
{
    if (folder->entries)
        closedir(folder->entries);
}

const char *gf_folder_next(struct gf_folder *folder)
{
    const struct dirent *entry;

    while (folder->entries && folder->names++ < GF_FOLDER_MOST &&
           (entry = readdir(folder->entries)))
        if (*entry->d_name != '.')
            return entry->d_name;
    return NULL;
}

int gf_input_open_or_pipe(const char *path)
{
    return open_again(open_at(AT_FDCWD, path, O_PATH), path, true);
}
