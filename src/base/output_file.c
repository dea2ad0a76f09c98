/* SPDX-License-Identifier: Apache-2.0 */
#include "base/output_file.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "base/path.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#define LINKS_MOST 40 /* the same limit as the kernel's MAXSYMLINKS */
#define MAGIC 1       /* result of read_link: a link of procfs, which only the kernel can follow */
#define AGAIN INT_MIN /* result of the last step: the file is a link, and the walk continues */
#define OPEN_TO_APPEND (O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

struct walk {
    int folder;       /* the folder that the walk has reached */
    const char *rest; /* the part of the path after `name` */
    unsigned links;
    bool make;    /* missing folders are created */
    dev_t served; /* the file system of a process by whose link the path goes on; 0: none */
    char name[NAME_MAX + 1];
    char buffer[PATH_MAX]; /* the rest of the path after a link */
};

static int open_at(int folder, const char *name, int flags, mode_t mode)
{
    const long fd = syscall(SYS_openat, folder, name, flags, mode);
    return fd < 0 ? -errno : (int)fd;
}

static void close_one(int fd)
{
    syscall(SYS_close, fd);
}

static int stat_at(int folder, const char *name, int flags, struct stat *ret)
{
    return syscall(SYS_newfstatat, folder, name, ret, flags) ? -errno : 0;
}

static bool is_procfs(int folder)
{
    struct statfs system;
    return syscall(SYS_fstatfs, folder, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

static bool is_in_user_namespace(void)
{
    struct stat space;
    return !stat_at(AT_FDCWD, "/proc/self/ns/user", 0, &space) &&
           space.st_ino != 0xEFFFFFFD; /* the kernel's PROC_USER_INIT_INO */
}

/*
 * Whether files of this id may belong to root outside of the process's user namespace, as in a
 * container without privileges.
 */
static bool is_unmapped(uid_t user)
{
    return user == 65534 && is_in_user_namespace();
}

/* Whether another user may have planted files and links in the folder. */
static bool is_open_to_others(const struct stat *folder)
{
    return !gf_is_trusted_owner(folder) || (folder->st_mode & (S_IWGRP | S_IWOTH));
}

/*
 * Whether another user may have given the file a second name in the folder. The kernel refuses this
 * only with fs.protected_hardlinks.
 */
static bool may_be_second_name(const struct stat *file, const struct stat *folder)
{
    return file->st_nlink > 1 && is_open_to_others(folder);
}

static bool is_trusted_link(const struct stat *link, const struct stat *folder)
{
    if (may_be_second_name(link, folder))
        return false;
    if (gf_is_trusted_owner(link) && gf_is_trusted_owner(folder))
        return true;
    return (gf_is_trusted_owner(link) || is_unmapped(link->st_uid)) &&
           (gf_is_trusted_owner(folder) || is_unmapped(folder->st_uid)) &&
           !(folder->st_mode & (S_IWGRP | S_IWOTH));
}

/*
 * Whether the options of a mount name root or the process's user: ",user_id=1000,". In another user
 * namespace, an id other than 0 may be one of the namespace in which the file system was mounted.
 */
static bool names_trusted_user(const char *options)
{
    const char *at = strstr(options, ",user_id=");
    char own[32];

    if (!at)
        return false;
    gf_fmt(own, sizeof(own), ",user_id=%u,", geteuid());
    return gf_begins(at, ",user_id=0,") || (gf_begins(at, own) && !is_in_user_namespace());
}

/* A line of mountinfo: "36 35 0:58 / /point options - fuse source options". */
struct mount_line {
    unsigned words, type; /* type: which word is the type of the file system; 0: not known yet */
    bool is_device, is_fuse;
};

static void read_word(struct mount_line *line, const char *word, const char *device)
{
    if (++line->words == 3)
        line->is_device = strcmp(word, device) == 0;
    if (line->words == line->type) /* not virtiofs, which only root can mount */
        line->is_fuse = gf_begins(word, "fuse");
    if (!line->type && strcmp(word, "-") == 0)
        line->type = line->words + 1;
}

/*
 * Whether the device is a FUSE file system that another user has mounted, by its line in mountinfo.
 * Returns -1 if no line has the device, as for mounts of other namespaces.
 */
static int is_of_other(dev_t device)
{
    char text[1024], wanted[32], word[128];
    const int fd =
        open_at(AT_FDCWD, "/proc/thread-self/mountinfo", O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    struct mount_line line = {0};
    size_t length = 0;
    ssize_t got;
    int ret = -1;

    gf_fmt(wanted, sizeof(wanted), "%u:%u", major(device), minor(device));
    while (fd >= 0 && is_procfs(fd) && (got = syscall(SYS_read, fd, text, sizeof(text))) > 0)
        for (ssize_t i = 0; i < got; i++) {
            if (text[i] != ' ' && text[i] != '\n') {
                word[length] = text[i];
                length += length + 1 < sizeof(word);
                continue;
            }
            word[length] = '\0';
            length = 0;
            read_word(&line, word, wanted);
            if (text[i] == ' ')
                continue;
            if (line.is_device) /* the last word has the options of the file system */
                ret = line.is_fuse && !names_trusted_user(word);
            line = (struct mount_line){0};
        }
    if (fd >= 0)
        close_one(fd);
    return ret;
}

bool gf_is_served(int fd)
{
    struct statfs system;
    struct statx found;
    /* Without AT_STATX_DONT_SYNC, and in fstatfs, the kernel asks the server, which need not answer. */
    const int of_other = syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0U, &found)
                             ? -1
                             : is_of_other(makedev(found.stx_dev_major, found.stx_dev_minor));

    return of_other >= 0 ? of_other
                         : syscall(SYS_fstatfs, fd, &system) ||
                               (system.f_type & 0xffffffff) == FUSE_SUPER_MAGIC;
}

/* A link on such a file system is followed only to a file in the same file system. */
static void note_served(struct walk *walk, int link, dev_t device)
{
    if (walk->served || !gf_is_served(link))
        return;
    walk->served = device;
    walk->make = false;
}

static bool has_left_served(const struct walk *walk)
{
    struct stat folder;

    return walk->served &&
           (stat_at(walk->folder, "", AT_EMPTY_PATH, &folder) || folder.st_dev != walk->served);
}

/* Puts the target of the link before the rest of the path. */
static int splice_target(struct walk *walk, int link)
{
    char target[PATH_MAX];
    const ssize_t length = syscall(SYS_readlinkat, link, "", target, sizeof(target));
    const size_t rest = strlen(walk->rest) + 1;

    if (length <= 0)
        return length ? -errno : -ENOENT;
    if ((size_t)length + rest > sizeof(walk->buffer))
        return -ENAMETOOLONG;
    if (++walk->links > LINKS_MOST)
        return -ELOOP;
    if (target[0] == '/') {
        const int top = open_at(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
        if (top < 0)
            return top;
        close_one(walk->folder);
        walk->folder = top;
    }
    memmove(walk->buffer + length, walk->rest, rest);
    memcpy(walk->buffer, target, (size_t)length);
    walk->rest = walk->buffer;
    return 0;
}

/*
 * Continues the path at the target of the link walk->name. Returns 0, MAGIC or -errno; -ELOOP if
 * the link is not trusted.
 */
static GF_COLD int read_link(struct walk *walk)
{
    const int link = open_at(walk->folder, walk->name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
    struct stat found, folder;

    if (link < 0)
        return link;
    int result = stat_at(link, "", AT_EMPTY_PATH, &found);
    if (!result)
        result = stat_at(walk->folder, "", AT_EMPTY_PATH, &folder);
    if (!result && !S_ISLNK(found.st_mode))
        result = -ENOTDIR;
    else if (!result && is_procfs(walk->folder))
        result = MAGIC;
    else if (!result)
        result = is_trusted_link(&found, &folder) ? splice_target(walk, link) : -ELOOP;
    if (!result)
        note_served(walk, link, found.st_dev);
    close_one(link);
    return result;
}

/* Enters the folder walk->name, or continues at the target of a link. */
static int enter(struct walk *walk)
{
    const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    int fd = open_at(walk->folder, walk->name, flags | O_NOFOLLOW, 0);

    if (fd == -ENOENT && walk->make && !syscall(SYS_mkdirat, walk->folder, walk->name, 0700))
        fd = open_at(walk->folder, walk->name, flags | O_NOFOLLOW, 0);
    if (fd == -ENOTDIR || fd == -ELOOP) {
        const int result = read_link(walk);
        if (result != MAGIC)
            return result;
        fd = open_at(walk->folder, walk->name, flags, 0);
    }
    if (fd < 0)
        return fd;
    close_one(walk->folder);
    walk->folder = fd;
    return 0;
}

/* Walks to the folder of the last name. Returns 0 or -errno. */
static int walk_on(struct walk *walk)
{
    for (;;) {
        walk->rest += strspn(walk->rest, "/");
        const size_t length = strcspn(walk->rest, "/");
        if (!length)
            return -EISDIR;
        if (length >= sizeof(walk->name))
            return -ENAMETOOLONG;
        memcpy(walk->name, walk->rest, length);
        walk->name[length] = '\0';
        walk->rest += length;
        if (!*walk->rest)
            return 0;
        const int error = enter(walk);
        if (error)
            return error;
    }
}

/*
 * Walks along the path, and calls `last` for the last name, until it returns another value than
 * AGAIN. Returns this value, or -errno.
 */
static int walk_path(struct walk *walk, const char *path, bool make,
                     int (*last)(struct walk *walk, void *closure), void *closure)
{
    int result = *path ? AGAIN : -ENOENT;

    walk->rest = path;
    walk->links = 0;
    walk->make = make;
    walk->served = 0;
    walk->folder = open_at(AT_FDCWD, *path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (walk->folder < 0)
        return walk->folder;
    while (result == AGAIN) {
        result = walk_on(walk);
        if (!result)
            result = has_left_served(walk) ? -ELOOP : last(walk, closure);
    }
    close_one(walk->folder);
    return result;
}

/*
 * Checks an open file that the caller appends to. Another user may have planted a pipe, a file of
 * his own, or a second name of a file of the process's user. On network file systems the owner may
 * be an id of the server.
 */
static int check_appendable(int fd, int folder)
{
    struct stat found, around;
    struct statfs system;
    int error = stat_at(fd, "", AT_EMPTY_PATH, &found);

    if (!error)
        error = stat_at(folder, "", AT_EMPTY_PATH, &around);
    if (error)
        return error;
    if (may_be_second_name(&found, &around))
        return -EPERM;
    if (S_ISCHR(found.st_mode))
        return 0;
    if (S_ISFIFO(found.st_mode))
        return gf_is_trusted_owner(&found) && !gf_is_served(fd) ? 0 : -EPERM;
    if (!S_ISREG(found.st_mode))
        return -EINVAL;
    if (!is_open_to_others(&around) || gf_is_trusted_owner(&found))
        return 0;
    if (syscall(SYS_fstatfs, fd, &system) || !gf_is_network_fs((unsigned long)system.f_type))
        return -EPERM;
    return 0;
}

static int open_checked(const struct walk *walk, int more_flags)
{
    const int fd =
        open_at(walk->folder, walk->name, OPEN_TO_APPEND | O_NOFOLLOW | more_flags, 0600);
    const int error = fd < 0 ? 0 : check_appendable(fd, walk->folder);

    if (error)
        close_one(fd);
    return error ? error : fd;
}

static int open_to_append(struct walk *walk, void *closure)
{
    (void)closure;
    const int fd = open_checked(walk, O_CREAT);
    if (fd != -ELOOP)
        return fd;
    const int result = read_link(walk);
    return result == MAGIC ? open_at(walk->folder, walk->name, OPEN_TO_APPEND, 0)
           : result        ? result
                           : AGAIN;
}

int gf_output_open_to_append(const char *path)
{
    struct walk walk;
    return walk_path(&walk, path, false, open_to_append, NULL);
}

ssize_t gf_output_append(const char *path, const char *first, size_t first_length,
                         const char *second, size_t second_length)
{
    const struct iovec parts[] = {{(void *)(uintptr_t)first, first_length},
                                  {(void *)(uintptr_t)second, second_length}};
    const int fd = gf_output_open_to_append(path);

    if (fd < 0)
        return fd;
    const ssize_t written = gf_safe_writev(fd, parts, 2);
    const int error = written < 0 ? errno : 0;
    close_one(fd);
    return error ? -error : written;
}

struct begin {
    struct gf_output *output;
    mode_t mode;
};

/* fd: the file that is appended to, or the folder of a new file. */
static void note_place(int fd, struct gf_replaced *ret)
{
    struct stat found;
    struct statfs system;

    if (!ret || fd < 0)
        return;
    if (stat_at(fd, "", AT_EMPTY_PATH, &found) == 0 && !S_ISREG(found.st_mode) &&
        !S_ISDIR(found.st_mode))
        ret->place = gf_file_place_stream;
    else if (syscall(SYS_fstatfs, fd, &system) == 0 &&
             gf_is_network_fs((unsigned long)system.f_type))
        ret->place = gf_file_place_network;
}

/*
 * Creates a new file in the folder. Its name contains the time in nanoseconds, so another user
 * cannot guess it, and a process with the same pid in another container gets another name.
 */
static int open_beside(struct walk *walk, const struct begin *begin)
{
    struct gf_output *output = begin->output;
    int fd = -EEXIST;

    note_place(walk->folder, output->replaced);
    for (unsigned tries = 0; tries < 8 && fd == -EEXIST; tries++) {
        gf_fmt(output->beside, sizeof(output->beside), ".gpufeed-%d-%08x", getpid(),
               (unsigned)gf_now_ns() + tries);
        fd = open_at(walk->folder, output->beside,
                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, begin->mode);
    }
    if (fd < 0)
        return fd;
    output->folder = walk->folder;
    walk->folder = -1; /* gf_output_end closes it */
    memcpy(output->name, walk->name, sizeof(output->name));
    output->fd = fd;
    return 0;
}

static int open_stream(const struct walk *walk, const struct begin *begin, bool magic)
{
    const int fd =
        magic ? open_at(walk->folder, walk->name, OPEN_TO_APPEND, 0) : open_checked(walk, 0);

    begin->output->fd = fd;
    note_place(fd, begin->output->replaced);
    return fd < 0 ? fd : 0;
}

static int begin_at_link(struct walk *walk, const struct begin *begin)
{
    const int result = read_link(walk);

    if (result == -ELOOP && walk->links <= LINKS_MOST)
        return open_beside(walk, begin);
    return result == MAGIC ? open_stream(walk, begin, true) : result ? result : AGAIN;
}

static int begin_output(struct walk *walk, void *closure)
{
    const struct begin *begin = closure;
    struct stat found;
    const int error = stat_at(walk->folder, walk->name, AT_SYMLINK_NOFOLLOW, &found);

    if (!error && S_ISREG(found.st_mode) && begin->output->replaced)
        begin->output->replaced->before = found;
    if (error == -ENOENT || (!error && S_ISREG(found.st_mode)))
        return open_beside(walk, begin);
    if (error)
        return error;
    if (S_ISLNK(found.st_mode))
        return begin_at_link(walk, begin);
    if (S_ISCHR(found.st_mode) || (S_ISFIFO(found.st_mode) && gf_is_trusted_owner(&found)))
        return open_stream(walk, begin, false);
    if (S_ISFIFO(found.st_mode))
        return open_beside(walk, begin); /* another user's pipe, which the new file replaces */
    return S_ISDIR(found.st_mode) ? -EISDIR : -EINVAL;
}

static int begin_at(struct gf_output *output, const char *path, enum gf_output_flags flags,
                    struct gf_replaced *replaced)
{
    const struct begin begin = {output, flags & gf_output_shared ? 0666 : 0600};
    struct walk walk;

    output->fd = output->folder = -1;
    output->replaced = replaced;
    if (replaced)
        memset(replaced, 0, sizeof(*replaced));
    return walk_path(&walk, path, flags & gf_output_folders, begin_output,
                     (void *)(uintptr_t)&begin);
}

int gf_output_begin(struct gf_output *output, const char *path, enum gf_output_flags flags)
{
    return begin_at(output, path, flags, NULL);
}

int gf_output_end(struct gf_output *output, bool whole)
{
    const int folder = output->folder;
    int error = syscall(SYS_close, output->fd) ? -errno : 0;

    if (folder < 0)
        return error;
    if (whole && !error && renameat(folder, output->beside, folder, output->name))
        error = -errno;
    if (!whole || error)
        unlinkat(folder, output->beside, 0);
    else if (output->replaced &&
             stat_at(folder, output->name, AT_SYMLINK_NOFOLLOW, &output->replaced->after))
        output->replaced->after.st_ino = 0;
    close_one(folder);
    return error;
}

static int write_whole(int fd, const char *bytes, size_t length)
{
    while (length) {
        const ssize_t written = gf_safe_write(fd, bytes, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? -errno : -EIO;
        bytes += written;
        length -= (size_t)written;
    }
    return 0;
}

int gf_output_replace_seen(const char *path, const void *bytes, size_t length,
                           enum gf_output_flags flags, struct gf_replaced *ret)
{
    struct gf_output output;
    int error = begin_at(&output, path, flags, ret);

    if (error)
        return error;
    const int unwritten = write_whole(output.fd, bytes, length);
    error = gf_output_end(&output, !unwritten);
    return unwritten ? unwritten : error;
}

int gf_output_replace(const char *path, const void *bytes, size_t length,
                      enum gf_output_flags flags)
{
    return gf_output_replace_seen(path, bytes, length, flags, NULL);
}

static int find_last(struct walk *walk, void *closure)
{
    const int fd = open_at(walk->folder, walk->name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
    struct stat found;

    (void)closure;
    if (fd < 0 || (stat_at(fd, "", AT_EMPTY_PATH, &found) == 0 && !S_ISLNK(found.st_mode)))
        return fd;
    close_one(fd);
    const int result = read_link(walk);
    return result == MAGIC ? open_at(walk->folder, walk->name, O_PATH | O_CLOEXEC, 0)
           : result        ? result
                           : AGAIN;
}

int gf_output_find(const char *path)
{
    struct walk walk;
    return walk_path(&walk, path, false, find_last, NULL);
}

static int remove_last(struct walk *walk, void *closure)
{
    struct stat found;
    const int error = stat_at(walk->folder, walk->name, AT_SYMLINK_NOFOLLOW, &found);

    (void)closure;
    if (error || !S_ISREG(found.st_mode))
        return error ? error : S_ISLNK(found.st_mode) ? -ELOOP : -EINVAL;
    return unlinkat(walk->folder, walk->name, 0) ? -errno : 0;
}

int gf_output_remove(const char *path)
{
    struct walk walk;
    return walk_path(&walk, path, false, remove_last, NULL);
}

const char *gf_output_reason(int error)
{
    if (error == -ELOOP)
        return "a symbolic link in the path, or its folder, belongs to another user, a link has a "
               "second name or leads out of a FUSE file system, or links form a circle";
    if (error == -EPERM)
        return "the file belongs to another user, has a second name, or may not be changed";
    if (error == -ENXIO)
        return "no process reads the pipe, or the file is a socket";
    return strerrordesc_np(-error);
}
