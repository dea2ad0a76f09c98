/* SPDX-License-Identifier: Apache-2.0 */
#include "host/tasks.h"

#include "base/fmt.h"
#include "os/own_table.h"
#include "os/permit.h"
#include "os/procfs.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#define PATH_SIZE 64

/* Writes the path "/proc/PID/name", or "/proc/self/name" for pid 0. */
static void proc_path(pid_t pid, const char *name, char ret[PATH_SIZE])
{
    if (pid)
        gf_fmt(ret, PATH_SIZE, "/proc/%d/%s", pid, name);
    else
        gf_fmt(ret, PATH_SIZE, "/proc/self/%s", name);
}

/* Reads a file of a thread. task: a descriptor of the task folder of the thread's process. */
static int read_task_file(int task, pid_t tid, const char *name, char *buf, size_t size)
{
    char path[PATH_SIZE];
    gf_fmt(path, sizeof(path), "%d/%s", tid, name);
    const int length = gf_procfs_read_at(task, buf, size, path);
    return length < 0 ? length : length ? 0 : -EIO;
}

struct listing {
    pid_t pid;
    void (*visit)(void *closure, int task, pid_t tid);
    void *closure;
    int error;
};

static void list_tasks(void *closure)
{
    struct listing *listing = closure;
    _Alignas(struct dirent64) char entries[2048];
    char path[PATH_SIZE];
    /* If the calling thread was created only for this listing, it is not listed. */
    const pid_t skipped = gf_own_table_on_short_thread() ? (pid_t)syscall(SYS_gettid) : 0;
    long got;

    proc_path(listing->pid, "task", path);
    const int fd = gf_procfs_open(AT_FDCWD, path);
    listing->error = fd < 0 ? fd : 0;
    if (fd < 0)
        return;
    /* getdents is used instead of readdir, because readdir allocates. */
    while ((got = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0) {
        for (long at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
            /* only "." and ".." have the id 0 */
            const int tid = (int)strtol(entry->d_name, NULL, 10);
            if (tid > 0 && tid != skipped)
                listing->visit(listing->closure, fd, tid);
            at += entry->d_reclen;
        }
    }
    listing->error = got < 0 ? -errno : 0;
    gf_procfs_close(fd);
}

int gf_tasks_each(pid_t pid, void (*visit)(void *closure, int task, pid_t tid), void *closure)
{
    struct listing listing = {pid, visit, closure, -EAGAIN};

    gf_own_table_run(list_tasks, &listing);
    return listing.error;
}

bool gf_tasks_has_children(void)
{
    siginfo_t info;
    /* The system call is made directly, because libc's waitid is a cancellation point. */
    return syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL, NULL) == 0 ||
           errno != ECHILD;
}

void gf_tasks_children(int task, pid_t tid, void (*visit)(void *closure, pid_t child),
                       void *closure)
{
    char path[PATH_SIZE], text[1024];
    ssize_t got;
    pid_t child = 0;

    gf_fmt(path, sizeof(path), "%d/children", tid);
    const int fd = gf_procfs_open(task, path);
    if (fd < 0)
        return;
    while ((got = gf_procfs_chunk(fd, text, sizeof(text))) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                child = child * 10 + (text[i] - '0');
            } else if (child) {
                visit(closure, child);
                child = 0;
            }
        }
    }
    if (child)
        visit(closure, child);
    gf_procfs_close(fd);
}

#define MAPS_SIZE ((size_t)8192) /* holds at least one line */
/*
 * 65 530 mappings, the kernel's default limit, have less than 8 MiB of usual paths. A process may
 * have paths of 4 KiB.
 */
#define MAPS_MOST_BYTES (32 << 20)

struct map_search {
    char path[PATH_SIZE];
    char *text;
    const char *needle;
    uintptr_t *ret;
    int error;
};

static void find_in_maps(void *closure)
{
    struct map_search *search = closure;
    struct gf_procfs_lines lines = {.buf = search->text, .size = MAPS_SIZE};

    if (!gf_procfs_lines_open(&lines, search->path)) {
        search->error = lines.fd;
        return;
    }
    search->error = -ENOENT;
    for (const char *line; search->error && lines.offset < MAPS_MOST_BYTES &&
                           (line = gf_procfs_lines_next(&lines));) {
        if (!strstr(line, search->needle))
            continue;
        if (search->ret)
            *search->ret = strtoul(line, NULL, 16);
        search->error = 0;
    }
    if (search->error && lines.error)
        search->error = lines.error;
    gf_procfs_lines_close(&lines);
}

int gf_tasks_find_map(pid_t pid, const char *needle, uintptr_t *ret)
{
    struct map_search search = {
        .text = gf_scratch_take(MAPS_SIZE), .needle = needle, .ret = ret, .error = -EAGAIN};

    if (!search.text)
        return -ENOMEM;
    proc_path(pid, "maps", search.path);
    gf_own_table_run(find_in_maps, &search);
    gf_scratch_give(search.text, MAPS_SIZE);
    return search.error;
}

int gf_tasks_start_time(pid_t pid, uint64_t *ret)
{
    char path[PATH_SIZE], text[1024];

    proc_path(pid, "stat", path);
    const int length = gf_procfs_read_at(AT_FDCWD, text, sizeof(text), path);
    const char *at = length > 0 ? gf_procfs_stat(text, 22) : NULL;
    if (!at)
        return length < 0 ? length : -EIO;
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
    if (!gf_permit(gf_permit_set_affinity))
        return -EPERM;
    return syscall(SYS_sched_setaffinity, tid, sizeof(*cpus), cpus->word) ? -errno : 0;
}

int gf_tasks_schedstat(int task, pid_t tid, uint64_t *ret_run_ns, uint64_t *ret_delay_ns)
{
    char text[128], *end;
    const int error = read_task_file(task, tid, "schedstat", text, sizeof(text));

    if (error)
        return error;
    *ret_run_ns = strtoull(text, &end, 10);
    *ret_delay_ns = strtoull(end, NULL, 10);
    return 0;
}

/* Parses a line like "42 (a name) S ...". The page faults are the 10th and the 12th field. */
static bool parse_stat(const char *text, struct gf_task_account *ret)
{
    const char *name = strchr(text, '('), *end = strrchr(text, ')');
    const char *minor = gf_procfs_stat(text, 10), *major = gf_procfs_stat(text, 12);

    if (!name || !end || end < name || !minor)
        return false;
    gf_fmt(ret->name, sizeof(ret->name), "%.*s", (int)(end - name - 1), name + 1);
    ret->minor = strtoull(minor, NULL, 10);
    ret->major = major ? strtoull(major, NULL, 10) : 0;
    return true;
}

/*
 * Reads a line like "55d0c8a00000 prefer (many):0-1 file=...". The buffer is small, so that the
 * kernel walks only one mapping.
 */
int gf_tasks_policy(int task, pid_t tid, char *buf, size_t size)
{
    char text[80];
    const int error = read_task_file(task, tid, "numa_maps", text, sizeof(text));
    const char *at = error ? NULL : strchr(text, ' ');

    if (!at)
        return error ? error : -EIO;
    size_t length = strcspn(at + 1, " \n");
    if (gf_begins(at + 1 + length, " ("))
        length += 1 + strcspn(at + 2 + length, " \n");
    gf_fmt(buf, size, "%.*s", (int)length, at + 1);
    return 0;
}

int gf_tasks_account(int task, pid_t tid, struct gf_task_account *ret)
{
    char text[512];
    const int error = read_task_file(task, tid, "stat", text, sizeof(text));

    if (error)
        return error;
    if (!parse_stat(text, ret))
        return -EIO;
    return gf_tasks_schedstat(task, tid, &ret->run_ns, &ret->delay_ns);
}
