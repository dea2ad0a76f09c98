/* SPDX-License-Identifier: Apache-2.0 */
#include "host/tasks.h"

#include "base/fmt.h"
#include "base/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_SIZE 64

static int open_of(pid_t pid, const char *rest, int flags)
{
    char path[PATH_SIZE];
    if (pid)
        gf_fmt(path, sizeof(path), "/proc/%d/%s", pid, rest);
    else
        gf_fmt(path, sizeof(path), "/proc/self/%s", rest);
    const int fd = open(path, flags | O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int open_at(int task, pid_t tid, const char *name)
{
    char path[PATH_SIZE];
    gf_fmt(path, sizeof(path), "%d/%s", tid, name);
    const int fd = openat(task, path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int gf_tasks_each(pid_t pid, void (*see)(void *closure, int task, pid_t tid), void *closure)
{
    _Alignas(struct dirent64) char entries[2048];
    const int fd = open_of(pid, "task", O_DIRECTORY);
    long got;

    if (fd < 0)
        return fd;
    /* readdir would allocate. */
    while ((got = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0) {
        for (long at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
            const int tid = atoi(entry->d_name);
            if (tid > 0)
                see(closure, fd, tid);
            at += entry->d_reclen;
        }
    }
    const int error = got < 0 ? -errno : 0;
    close(fd);
    return error;
}

bool gf_tasks_has_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 || errno != ECHILD;
}

int gf_tasks_children(int task, pid_t tid, void (*see)(void *closure, pid_t child), void *closure)
{
    char text[1024];
    ssize_t got;
    pid_t child = 0;
    const int fd = open_at(task, tid, "children");

    if (fd < 0)
        return fd;
    while ((got = read(fd, text, sizeof(text))) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                child = child * 10 + (text[i] - '0');
            } else if (child) {
                see(closure, child);
                child = 0;
            }
        }
    }
    if (child)
        see(closure, child);
    close(fd);
    return 0;
}

#define MAPS_SIZE ((size_t)8192) /* of a line at least */

static int find_in_maps(int fd, char *text, const char *needle, uintptr_t *ret)
{
    size_t kept = 0;
    int error = -ENOENT;
    ssize_t got;

    while (error && (got = read(fd, text + kept, MAPS_SIZE - 1 - kept)) > 0) {
        char *line = text, *end;
        text[kept + (size_t)got] = '\0';
        for (; error && (end = strchr(line, '\n')); line = end + 1) {
            *end = '\0';
            if (!strstr(line, needle))
                continue;
            *ret = strtoul(line, NULL, 16);
            error = 0;
        }
        kept = error ? strlen(line) : 0; /* a line that goes on in the next read */
        memmove(text, line, kept);
    }
    return error;
}

int gf_tasks_find_map(pid_t pid, const char *needle, uintptr_t *ret)
{
    char *text = gf_scratch_take(MAPS_SIZE);
    const int fd = text ? open_of(pid, "maps", 0) : -ENOMEM;
    const int error = fd < 0 ? fd : find_in_maps(fd, text, needle, ret);

    if (fd >= 0)
        close(fd);
    gf_scratch_give(text, MAPS_SIZE);
    return error;
}

int gf_tasks_born(pid_t pid, uint64_t *ret)
{
    char text[1024];
    const int fd = open_of(pid, "stat", 0);
    if (fd < 0)
        return fd;
    const ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (got <= 0)
        return -EIO;
    text[got] = '\0';
    /* Field 22; the name before may hold blanks and parentheses. */
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at)
        return -EIO;
    *ret = strtoull(at, NULL, 10);
    return 0;
}

uint64_t gf_tasks_now(void)
{
    struct timespec now;
    const uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * hz + (uint64_t)now.tv_nsec * hz / 1000000000;
}

int gf_tasks_get_mask(pid_t tid, struct gf_cpus *ret)
{
    struct gf_cpus mask = {0};
    if (syscall(SYS_sched_getaffinity, tid, sizeof(mask), mask.word) < 0)
        return -errno;
    *ret = mask;
    return 0;
}

int gf_tasks_set_mask(pid_t tid, const struct gf_cpus *cpus)
{
    return syscall(SYS_sched_setaffinity, tid, sizeof(*cpus), cpus->word) ? -errno : 0;
}

int gf_tasks_schedstat(int task, pid_t tid, uint64_t *ret_run_ns, uint64_t *ret_delay_ns)
{
    char text[128];
    const int fd = open_at(task, tid, "schedstat");

    if (fd < 0)
        return fd;
    const ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (got <= 0)
        return -EIO;
    text[got] = '\0';
    char *end;
    *ret_run_ns = strtoull(text, &end, 10);
    *ret_delay_ns = strtoull(end, NULL, 10);
    return 0;
}

/* "42 (a name) S ..." : the name may hold anything; faults are the 10th and the 12th field. */
static bool read_stat(char *text, struct gf_task_account *ret)
{
    char *name = strchr(text, '('), *end = strrchr(text, ')');

    if (!name || !end || end < name)
        return false;
    *end = '\0';
    gf_fmt(ret->name, sizeof(ret->name), "%s", name + 1);
    char *at = end + 1;
    for (unsigned field = 3; at && field < 10; field++)
        at = strchr(at + 1, ' ');
    if (!at)
        return false;
    ret->minor = strtoull(at, &at, 10);
    strtoull(at, &at, 10);
    ret->major = strtoull(at, NULL, 10);
    return true;
}

int gf_tasks_account(int task, pid_t tid, struct gf_task_account *ret)
{
    char text[512];
    const int fd = open_at(task, tid, "stat");

    if (fd < 0)
        return fd;
    const ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (got <= 0)
        return -EIO;
    text[got] = '\0';
    if (!read_stat(text, ret))
        return -EIO;
    return gf_tasks_schedstat(task, tid, &ret->run_ns, &ret->delay_ns);
}
