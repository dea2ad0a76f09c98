/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/program_start.h"

#include "os/launch.h"
#include "os/procfs.h"
#include "tools/common/text.h"

#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <mntent.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/wait.h>

#define FOLDER "/dev/shm"
#define NEW_MOUNTS "unshare(CLONE_NEWNS)"
#define MOUNT_TMPFS "mount(huge=within_size)"

struct new_mount {
    char folder[PATH_MAX]; /* the real path of /dev/shm */
    unsigned long flags;
    char wanted[128]; /* options for mount */
    bool in_user_namespace;
    const char *call;  /* the call that is made, and has failed if it was the last one */
    int error;         /* its errno in the child */
    char options[256]; /* as the kernel reports them */
};

/* Copies the options of the mount on the folder. Of several mounts, the last one hides the others. */
static bool read_options(const char *folder, char *ret, size_t size)
{
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    bool found = false;

    for (struct mntent *entry; mounts && (entry = getmntent(mounts));)
        if (strcmp(entry->mnt_dir, folder) == 0) {
            found = true;
            snprintf(ret, size, "%s", entry->mnt_opts);
        }
    if (mounts)
        endmntent(mounts);
    return found;
}

/* Whether the launcher has started, or may have started, other ranks on this host. */
static bool has_other_ranks(void)
{
    const char *ranks = getenv("WORLD_SIZE");
    struct gf_rank rank;

    gf_launch_rank(environ, &rank);
    if (rank.local_size > 0)
        return rank.local_size > 1;
    return rank.source ? rank.size != 1 : ranks && gf_procfs_number(ranks) > 1;
}

/* OLDPWD, which shells set, is where the user has been, and not a file of the program. */
static const char *find_word(char *const *words)
{
    while (*words && (!strstr(*words, FOLDER "/") || strncmp(*words, "OLDPWD=", 7) == 0))
        words++;
    return *words;
}

/*
 * Returns the word or variable that names a file in /dev/shm, which the program would not find, or the
 * working folder if it is /dev/shm or below it; else NULL.
 */
static const char *find_file(char *const *command)
{
    static char here[PATH_MAX + 1];
    const char *found = find_word(command);

    found = found ? found : find_word(environ);
    if (!found && getcwd(here, PATH_MAX))
        found = find_word((char *[]){strcat(here, "/"), NULL});
    return found;
}

/* Whether a user namespace takes no capability from the process, and maps all its ids. */
static bool is_ordinary_user(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};

    return syscall(SYS_capget, &header, data) == 0 && !data[0].permitted && !data[1].permitted &&
           geteuid() != 0 && getuid() == geteuid() && getgid() == getegid();
}

static bool write_line(const char *path, const char *line)
{
    FILE *file = fopen(path, "we");
    return file && fputs(line, file) >= 0 && fclose(file) == 0;
}

static bool enter_user_namespace(struct new_mount *new)
{
    const char *user = gf_text("%u %u 1", geteuid(), geteuid());
    const char *group = gf_text("%u %u 1", getegid(), getegid());

    new->call = "unshare(CLONE_NEWUSER)";
    if (unshare(CLONE_NEWUSER))
        return false;
    new->call = "write(/proc/self/uid_map)";
    return write_line("/proc/self/uid_map", user) && write_line("/proc/self/setgroups", "deny") &&
           write_line("/proc/self/gid_map", group);
}

static bool create_file(const char *folder)
{
    const int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd >= 0 && close(fd) == 0;
}

static bool make_calls(struct new_mount *new)
{
    if (new->in_user_namespace && !enter_user_namespace(new))
        return false;
    new->call = NEW_MOUNTS;
    if (unshare(CLONE_NEWNS))
        return false;
    /* Only the mount below becomes private, so other mounts still appear in both namespaces. */
    new->call = "mount(MS_PRIVATE)";
    if (mount(NULL, new->folder, NULL, MS_PRIVATE, NULL))
        return false;
    new->call = MOUNT_TMPFS;
    if (mount("tmpfs", new->folder, "tmpfs", new->flags, new->wanted))
        return false;
    new->call = "open(O_TMPFILE)"; /* a security module may refuse it */
    if (!create_file(new->folder) || !read_options(new->folder, new->options, sizeof(new->options)))
        return false;
    new->call = NULL;
    return true;
}

/* new: in memory that a child shares. */
static bool try_in_child(struct new_mount *new)
{
    new->call = "clone";
    /* Unlike fork's child, it sends no signal, which could stay pending in the program. */
    const pid_t child = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
    if (child < 0)
        return false;
    if (child == 0) {
        new->error = EPERM; /* if a seccomp filter kills this process */
        if (!make_calls(new))
            new->error = errno;
        _exit(0);
    }
    while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
        ;
    errno = new->error;
    return !new->call;
}

static bool is_setting(const char *path, const char *value)
{
    char text[16];
    return gf_procfs_read(text, sizeof(text), "", "%s", path) > 0 && strcmp(text, value) == 0;
}

/* Returns what most likely refused the call; "" if unknown. */
static const char *find_refuser(const struct new_mount *new, int error)
{
    static char text[160] = ": the security label is ";
    const size_t length = strlen(text);

    if (error == EINVAL && strcmp(new->call, MOUNT_TMPFS) == 0)
        return ": the kernel has no huge pages in tmpfs";
    if (error == ENOSPC)
        return ": a limit is reached (user.max_user_namespaces, user.max_mnt_namespaces, "
               "fs.mount-max)";
    if (error != EPERM && error != EACCES && error != ENOSYS)
        return "";
    if (new->in_user_namespace && is_setting("proc/sys/kernel/unprivileged_userns_clone", "0"))
        return ": kernel.unprivileged_userns_clone is 0";
    if (new->in_user_namespace &&
        is_setting("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"))
        return ": kernel.apparmor_restrict_unprivileged_userns is 1";
    if (error == EACCES &&
        gf_procfs_read(text + length, sizeof(text) - length, "", "proc/self/attr/current") > 0)
        return text;
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER)
        return ": the process has a seccomp filter";
    return strcmp(new->call, NEW_MOUNTS) != 0 || new->in_user_namespace
               ? ""
               : ": CAP_SYS_ADMIN is missing";
}

/* Sets flags and options of the new mount. Returns why it cannot be made; NULL if it can be. */
static const char *plan_mount(struct new_mount *ret)
{
    struct statfs old;

    if (statfs(FOLDER, &old) || old.f_type != TMPFS_MAGIC)
        return FOLDER " is not a tmpfs";
    if ((old.f_blocks && !old.f_bavail) || (old.f_files && !old.f_ffree))
        return FOLDER " is full";
    /* These flags have the same values in statfs and mount. Numbers of 0 mean no limit in both. */
    ret->flags = (unsigned long)old.f_flags &
                 (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME);
    snprintf(ret->wanted, sizeof(ret->wanted),
             "mode=1777,huge=within_size,size=%llu,nr_inodes=%llu",
             (unsigned long long)old.f_bavail * (unsigned long long)old.f_bsize,
             (unsigned long long)old.f_ffree);
    ret->in_user_namespace = is_ordinary_user();
    return NULL;
}

enum gf_shm gf_shm_mount(char *const *command, bool dry, char *ret, size_t size)
{
    struct new_mount *new =
        mmap(NULL, sizeof(*new), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *why;

    if (new == MAP_FAILED) {
        snprintf(ret, size, "mmap: %s", strerror(errno));
    } else if (!realpath(FOLDER, new->folder) ||
               !read_options(new->folder, new->options, sizeof(new->options))) {
        snprintf(ret, size, "nothing is mounted on " FOLDER);
    } else if (strstr(new->options, ",huge=always") || strstr(new->options, ",huge=within_size")) {
        snprintf(ret, size, "not changed, %s", new->options);
        return gf_shm_kept;
    } else if (has_other_ranks()) {
        return gf_shm_ranks;
    } else if ((why = find_file(command))) {
        /* Without the value of a variable, which may be secret. */
        snprintf(ret, size, "the program would not find files in " FOLDER ": %.*s",
                 (int)strcspn(why, "=\n"), why);
    } else if ((why = plan_mount(new))) {
        snprintf(ret, size, "%s", why);
    } else if (!try_in_child(new) || (!dry && !make_calls(new))) {
        const int error = errno;
        snprintf(ret, size, "%s: %s%s", new->call, strerror(error), find_refuser(new, error));
    } else {
        snprintf(ret, size, "private mount, %s%s", new->options,
                 new->in_user_namespace ? "; in a user namespace" : "");
        return gf_shm_mounted;
    }
    return gf_shm_failed;
}
