/* SPDX-License-Identifier: Apache-2.0 */
#include "os/cgroup.h"

#include "base/fmt.h"
#include "os/own_table.h"
#include "os/procfs.h"

#include <stdlib.h>

#define MOUNT GF_CGROUP_MOUNT
#define MOUNT_UNIFIED MOUNT "/unified" /* of version 2 */

/* Whether the list of n bytes, whose words are separated by commas, contains the word. */
static bool has_word(const char *list, size_t n, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; at < list + n;) {
        const size_t item = strcspn(at, ",:");
        if (item == length && strncmp(at, word, length) == 0)
            return true;
        at += item + 1;
    }
    return false;
}

/*
 * Returns the path in a line of /proc/self/cgroup ("4:memory:/a/b" or "0::/a/b") if the line
 * belongs to the controller, otherwise NULL. Sets *ret_valid to false if the line does not have
 * this form.
 */
static const char *group_path(const char *line, const char *controller, bool *ret_valid)
{
    const char *names = strchr(line, ':');
    const char *path = names ? strchr(names + 1, ':') : NULL;

    *ret_valid = path;
    if (!path)
        return NULL;
    names++;
    const bool wanted =
        *controller ? has_word(names, (size_t)(path - names), controller) : path == names;
    return wanted ? path + 1 : NULL;
}

struct search {
    const char *root, *controller;
    struct gf_procfs_lines lines;
    char *ret;
    size_t size;
    bool found;
};

static void search_groups(void *closure)
{
    struct search *search = closure;
    const char *path = NULL, *line;
    bool valid = true;

    if (!gf_procfs_lines_open_in(&search->lines, search->root, "/proc/self/cgroup"))
        return;
    while (!path && valid && (line = gf_procfs_lines_next(&search->lines)))
        path = group_path(line, search->controller, &valid);
    if (path)
        gf_fmt(search->ret, search->size, "%s", strcmp(path, "/") == 0 ? "" : path);
    gf_procfs_lines_close(&search->lines);
    search->found = path;
}

bool gf_cgroup_find(const char *root, const char *controller, char *scratch, size_t scratch_size,
                    char *ret, size_t size)
{
    struct search search = {root, controller, {.buf = scratch, .size = scratch_size},
                            ret,  size,       false};

    gf_own_table_run(search_groups, &search);
    return search.found;
}

const struct gf_cgroup_place gf_cgroup_memory_places[] = {
    {MOUNT, ""}, {MOUNT_UNIFIED, ""}, {MOUNT "/memory", "memory"}, {NULL, NULL}};
static const struct gf_cgroup_place cpu_places[] = {{MOUNT, ""},
                                                    {MOUNT_UNIFIED, ""},
                                                    {MOUNT "/cpu", "cpu"},
                                                    {MOUNT "/cpu,cpuacct", "cpu"},
                                                    {NULL, NULL}};

static void leave_place(struct gf_cgroup_walk *walk)
{
    walk->is_inside = false;
    walk->place++;
}

bool gf_cgroup_next(struct gf_cgroup_walk *walk)
{
    char *slash = walk->is_inside ? strrchr(walk->group, '/') : NULL;

    if (slash) {
        *slash = '\0'; /* the parent */
        return true;
    }
    if (walk->is_inside)
        leave_place(walk);
    while (walk->place->mount && !walk->is_inside) {
        walk->is_inside = gf_cgroup_find(walk->root, walk->place->controller, walk->line,
                                         sizeof(walk->line), walk->group, sizeof(walk->group));
        walk->place += !walk->is_inside;
    }
    return walk->is_inside;
}

int gf_cgroup_read(const struct gf_cgroup_walk *walk, const char *file, char *buf, size_t size)
{
    return gf_procfs_read(buf, size, walk->root, "%s%s/%s", walk->place->mount, walk->group, file);
}

int gf_cgroup_cpuset(const char *root, struct gf_cpus *ret)
{
    static const struct gf_cgroup_place places[] = {
        {MOUNT "/cpuset", "cpuset"}, {MOUNT, ""}, {MOUNT_UNIFIED, ""}, {NULL, NULL}};
    static const char *const files[] = {"cpuset.effective_cpus", "cpuset.cpus.effective",
                                        "cpuset.cpus"};
    struct gf_cgroup_walk walk = {.root = root, .place = places};
    char text[4096];

    while (gf_cgroup_next(&walk))
        for (size_t i = 0; i < GF_ARRAY_LEN(files); i++)
            if (gf_cgroup_read(&walk, files[i], text, sizeof(text)) > 0 &&
                gf_set_parse(text, ret) == 0)
                return 0;
    return -ENOENT;
}

static double quota_share(long long quota, long long period)
{
    return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

/* The file cpu.max has quota and period in microseconds: "400000 100000", or "max 100000". */
static double group_quota(const struct gf_cgroup_walk *walk)
{
    char quota[64], period[32], *end;

    if (gf_cgroup_read(walk, "cpu.max", quota, sizeof(quota)) > 0) {
        const long long us = strtoll(quota, &end, 10);
        return quota_share(us, strtoll(end, NULL, 10));
    }
    if (gf_cgroup_read(walk, "cpu.cfs_quota_us", quota, sizeof(quota)) <= 0 ||
        gf_cgroup_read(walk, "cpu.cfs_period_us", period, sizeof(period)) <= 0)
        return 0;
    return quota_share(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

double gf_cgroup_quota(const char *root)
{
    struct gf_cgroup_walk walk = {.root = root, .place = cpu_places};
    double best = 0;

    while (gf_cgroup_next(&walk)) {
        const double quota = group_quota(&walk);
        if (quota > 0 && (best <= 0 || quota < best))
            best = quota;
    }
    return best;
}

bool gf_cgroup_has_no_swap(const char *root)
{
    struct gf_cgroup_walk walk = {.root = root, .place = gf_cgroup_memory_places};
    char text[64];

    while (gf_cgroup_next(&walk))
        if (gf_cgroup_read(&walk, "memory.swap.max", text, sizeof(text)) > 0 &&
            strcmp(text, "0") == 0)
            return true;
    return false;
}

bool gf_cgroup_limits_reading(const char *root)
{
    static const struct gf_cgroup_place places[] = {
        {MOUNT, ""}, {MOUNT_UNIFIED, ""}, {MOUNT "/blkio", "blkio"}, {NULL, NULL}};
    static const char *const files[] = {"memory.high", "io.max", "blkio.throttle.read_bps_device",
                                        "blkio.throttle.read_iops_device"};
    struct gf_cgroup_walk walk = {.root = root, .place = places};
    char text[64];

    while (gf_cgroup_next(&walk))
        for (size_t i = 0; i < GF_ARRAY_LEN(files); i++)
            if (gf_cgroup_read(&walk, files[i], text, sizeof(text)) > 0 && strcmp(text, "max") != 0)
                return true;
    return false;
}

static uint64_t threads_left(const struct gf_cgroup_walk *walk)
{
    char most[32], now[32], *end;

    if (gf_cgroup_read(walk, "pids.max", most, sizeof(most)) <= 0 ||
        gf_cgroup_read(walk, "pids.current", now, sizeof(now)) <= 0)
        return UINT64_MAX;
    const uint64_t limit = strtoull(most, &end, 10), used = strtoull(now, NULL, 10);
    if (end == most) /* "max" */
        return UINT64_MAX;
    return limit > used ? limit - used : 0;
}

uint64_t gf_cgroup_threads_left(const char *root)
{
    static const struct gf_cgroup_place places[] = {
        {MOUNT, ""}, {MOUNT_UNIFIED, ""}, {MOUNT "/pids", "pids"}, {NULL, NULL}};
    struct gf_cgroup_walk walk = {.root = root, .place = places};
    uint64_t least = UINT64_MAX;

    while (gf_cgroup_next(&walk))
        least = gf_min(least, threads_left(&walk));
    return least;
}

/*
 * Only the nearest group of a place that has the file counts, because in version 1 the process's
 * own group may be mounted at the mount point.
 */
uint64_t gf_cgroup_throttled_ns(const char *root)
{
    struct gf_cgroup_walk walk = {.root = root, .place = cpu_places};
    char text[1024];

    while (gf_cgroup_next(&walk)) {
        if (gf_cgroup_read(&walk, "cpu.stat", text, sizeof(text)) < 0)
            continue;
        if (strstr(text, "throttled_"))
            return gf_procfs_value(text, "throttled_usec") * 1000 +
                   gf_procfs_value(text, "throttled_time");
        leave_place(&walk);
    }
    return 0;
}

/*
 * Returns the root of a mount of a file that the runtime puts into the container; NULL for another line. A line is
 * "36 35 8:1 /containers/ID/hostname /etc/hostname options - type source options". Paths of other mounts have ids
 * of layers and of other containers, or any text of another user.
 */
static char *root_of_file(char *line)
{
    char *root = line, *end;

    for (unsigned i = 0; i < 3; i++) {
        root += strcspn(root, " ");
        root += *root == ' ';
    }
    end = root + strcspn(root, " ");
    if (!gf_begins(end, " /etc/host"))
        return NULL;
    *end = '\0';
    return root;
}

/* Finds a run of exactly 64 hex digits in a line of the file. */
static bool find_digits(const char *path, bool has_mounts, char ret[GF_CONTAINER_ID])
{
    char buf[2048]; /* longer lines are cut */
    struct gf_procfs_lines lines = {.buf = buf, .size = sizeof(buf)};
    bool found = false;

    if (!gf_procfs_lines_open(&lines, path))
        return false;
    for (char *at = NULL; !found && (at = gf_procfs_lines_next(&lines));) {
        if (has_mounts && (lines.continued || !(at = root_of_file(at))))
            continue;
        for (size_t length; !found && *at; at += length ? length : 1) {
            length = strspn(at, "0123456789abcdef");
            found = length == GF_CONTAINER_ID - 1;
            if (found)
                memcpy(ret, at, length);
        }
    }
    gf_procfs_lines_close(&lines);
    return found;
}

/* In a cgroup namespace, the first file shows no path. */
static void find_id(void *closure)
{
    if (!find_digits("/proc/self/cgroup", false, closure))
        find_digits("/proc/self/mountinfo", true, closure);
}

bool gf_container_id(char ret[GF_CONTAINER_ID])
{
    memset(ret, 0, GF_CONTAINER_ID);
    gf_own_table_run(find_id, ret);
    return *ret;
}
