/* SPDX-License-Identifier: Apache-2.0 */
#include "os/pressure.h"

#include "base/atomic.h"
#include "base/fmt.h"
#include "os/cgroup.h"
#include "os/procfs.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define UNKNOWN GF_PRESSURE_UNKNOWN
#define MOUNT_V1 GF_CGROUP_MOUNT "/memory"

struct row {
    const char *key; /* "" if the file is one number */
    uint64_t *value;
};

/*
 * Adds the numbers of the lines whose first word is a key; several lines may count towards one
 * value.
 */
static bool add_rows(const char *path, const struct row *rows, size_t count)
{
    char buf[1024];
    struct gf_procfs_lines lines = {.buf = buf, .size = sizeof(buf)};

    if (!*path || !gf_procfs_lines_open(&lines, path))
        return false;
    for (const char *line; (line = gf_procfs_lines_next(&lines));)
        for (size_t i = 0; i < count; i++) {
            const size_t length = strlen(rows[i].key);
            if (strncmp(line, rows[i].key, length) == 0 && (line[length] == ' ' || !length))
                *rows[i].value += gf_procfs_number(line + length + (length != 0));
        }
    gf_procfs_lines_close(&lines);
    return true;
}

/* The number after "total=" in the line "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234". */
static bool read_stalled(const char *path, uint64_t *ret_us)
{
    char text[256];
    const char *total = NULL;

    if (*path && gf_procfs_read_at(AT_FDCWD, text, sizeof(text), path) > 0 &&
        strncmp(text, "some ", 5) == 0 && (total = strstr(text, "total=")))
        *ret_us = gf_procfs_number(total + 6);
    return total;
}

/* The paths of one group's files. */
struct files {
    char path[GF_PROCFS_PATH_MAX];
    size_t folder; /* length of its folder's path */
};

static const char *group_file(struct files *files, const char *name)
{
    gf_fmt(files->path + files->folder, sizeof(files->path) - files->folder, "/%s", name);
    return files->path;
}

static void add_known(uint64_t *to, uint64_t value)
{
    *to = (*to == UNKNOWN ? 0 : *to) + value;
}

static void read_group_pressure(struct files *files, struct gf_pressure *ret)
{
    uint64_t limited = 0, killed = 0;
    const struct row rows[] = {
        {"high", &limited}, {"max", &limited}, {"oom", &killed}, {"oom_kill", &killed}};

    if (ret->stalled_us == UNKNOWN &&
        read_stalled(group_file(files, "memory.pressure"), &ret->stalled_us))
        ret->stalled_file = "memory.pressure";
    if (!add_rows(group_file(files, "memory.events"), rows, GF_ARRAY_LEN(rows)))
        return;
    add_known(&ret->limited, limited);
    add_known(&ret->killed, killed);
    ret->limited_file = "memory.events";
}

static void read_group_v1_pressure(struct files *files, struct gf_pressure *ret)
{
    uint64_t limited = 0, killed = 0;
    const struct row failures = {"", &limited}, kills = {"oom_kill", &killed};

    if (!add_rows(group_file(files, "memory.failcnt"), &failures, 1))
        return;
    add_known(&ret->limited, limited);
    ret->limited_file = "memory.failcnt";
    if (add_rows(group_file(files, "memory.oom_control"), &kills, 1))
        add_known(&ret->killed, killed);
}

static bool find_pressure_group(const char *root, const char *controller, char *ret, size_t size)
{
    char line[2048];
    return gf_cgroup_find(root, controller, line, sizeof(line), ret, size);
}

static void read_pressure_groups(const char *root, const char *mount, const char *controller,
                                 void (*read)(struct files *files, struct gf_pressure *ret),
                                 struct gf_pressure *ret)
{
    char group[1024];
    struct files files;

    if (!find_pressure_group(root, controller, group, sizeof(group)))
        return;
    do {
        files.folder = (size_t)gf_fmt(files.path, sizeof(files.path) - 64, "%s/%s%s",
                                      root ? root : "", mount, group);
        if (files.folder < sizeof(files.path) - 64)
            read(&files, ret);
    } while (gf_cgroup_to_parent(group));
}

void gf_pressure_read(const char *root, struct gf_pressure *ret)
{
    char path[GF_PROCFS_PATH_MAX];

    *ret = (struct gf_pressure){.stalled_us = UNKNOWN, .limited = UNKNOWN, .killed = UNKNOWN};
    read_pressure_groups(root, GF_CGROUP_MOUNT, "", read_group_pressure, ret);
    read_pressure_groups(root, GF_CGROUP_MOUNT_UNIFIED, "", read_group_pressure, ret);
    read_pressure_groups(root, MOUNT_V1, "memory", read_group_v1_pressure, ret);
    gf_fmt(path, sizeof(path), "%s/proc/pressure/memory", root ? root : "");
    if (ret->stalled_us == UNKNOWN && read_stalled(path, &ret->stalled_us))
        ret->stalled_file = "/proc/pressure/memory";
}

/*
 * The files of the process's own group, for stalls in the log. Their paths are built once, before
 * the first stall, because malloc may run on a small stack. "" if the group does not exist.
 */
static char events[512], pressure[512], cpu_stat[512];
static char failures_v1[512], cpu_stat_v1[2][512];
static _Atomic uint64_t throttled_seen_us;

static void read_throttled(uint64_t *ret_us)
{
    uint64_t us = 0, ns = 0;
    const struct row row = {"throttled_usec", &us}, row_v1 = {"throttled_time", &ns};

    if (!add_rows(cpu_stat, &row, 1) || !us)
        for (size_t i = 0; i < GF_ARRAY_LEN(cpu_stat_v1) && !ns; i++)
            add_rows(cpu_stat_v1[i], &row_v1, 1);
    *ret_us = us + ns / 1000;
}

void gf_pressure_counters_open(void)
{
    static atomic_flag opened = ATOMIC_FLAG_INIT;
    char line[1024], group[512];
    const size_t size = sizeof(events);

    if (atomic_flag_test_and_set_explicit(&opened, memory_order_relaxed))
        return;
    if (gf_cgroup_find("", "", line, sizeof(line), group, sizeof(group))) {
        gf_fmt(events, size, "/" GF_CGROUP_MOUNT "%s/memory.events", group);
        gf_fmt(pressure, size, "/" GF_CGROUP_MOUNT "%s/memory.pressure", group);
        gf_fmt(cpu_stat, size, "/" GF_CGROUP_MOUNT "%s/cpu.stat", group);
    }
    if (gf_cgroup_find("", "cpu", line, sizeof(line), group, sizeof(group))) {
        gf_fmt(cpu_stat_v1[0], size, "/" GF_CGROUP_MOUNT "/cpu%s/cpu.stat", group);
        gf_fmt(cpu_stat_v1[1], size, "/" GF_CGROUP_MOUNT "/cpu,cpuacct%s/cpu.stat", group);
    }
    if (gf_cgroup_find("", "memory", line, sizeof(line), group, sizeof(group)))
        gf_fmt(failures_v1, size, "/" MOUNT_V1 "%s/memory.failcnt", group);
    gf_pressure_throttled_since();
}

void gf_pressure_counters_read(struct gf_pressure_counters *ret)
{
    const int error = errno;
    *ret = (struct gf_pressure_counters){0};
    const struct row machine[] = {
        {"compact_stall", &ret->compactions},   {"allocstall_dma", &ret->reclaims},
        {"allocstall_dma32", &ret->reclaims},   {"allocstall_normal", &ret->reclaims},
        {"allocstall_movable", &ret->reclaims}, {"thp_fault_alloc", &ret->huge},
    };
    const struct row group[] = {{"high", &ret->high}, {"max", &ret->max}};
    const struct row group_v1[] = {{"", &ret->max}};

    ret->known = add_rows("/proc/vmstat", machine, GF_ARRAY_LEN(machine));
    add_rows(events, group, GF_ARRAY_LEN(group));
    add_rows(failures_v1, group_v1, GF_ARRAY_LEN(group_v1));
    ret->waits_known = read_stalled(pressure, &ret->waited_us);
    read_throttled(&ret->throttled_us);
    errno = error;
}

uint64_t gf_pressure_throttled_since(void)
{
    const int error = errno;
    uint64_t now;

    read_throttled(&now);
    const uint64_t before = gf_exchange_relaxed(&throttled_seen_us, now);
    errno = error;
    return now - gf_min(before, now);
}

void gf_pressure_counters_rise(const struct gf_pressure_counters *before,
                               const struct gf_pressure_counters *now,
                               struct gf_pressure_counters *ret)
{
    *ret = (struct gf_pressure_counters){.known = before->known && now->known};
    if (!ret->known)
        return;
    ret->compactions = now->compactions - before->compactions;
    ret->reclaims = now->reclaims - before->reclaims;
    ret->huge = now->huge - before->huge;
    /* After a move to another group, the numbers may be smaller. */
    ret->high = now->high - gf_min(before->high, now->high);
    ret->max = now->max - gf_min(before->max, now->max);
    ret->waits_known = before->waits_known && now->waits_known;
    ret->waited_us = now->waited_us - gf_min(before->waited_us, now->waited_us);
    ret->throttled_us = now->throttled_us - gf_min(before->throttled_us, now->throttled_us);
}
