/* SPDX-License-Identifier: Apache-2.0 */
#include "host/cgroup.h"

#include "base/fmt.h"
#include "host/sysfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOUNT GF_CGROUP_MOUNT

/* Whether the comma-separated list of length n holds the word. */
static bool lists(const char *list, size_t n, const char *word)
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

bool gf_cgroup_find(const char *root, const char *controller, char *text, size_t text_size,
                    char *ret, size_t size)
{
    if (gf_sysfile_read(text, text_size, root, "proc/self/cgroup") < 0)
        return false;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *names = strchr(line, ':');
        const char *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            return false;
        names++;
        if (*controller ? !lists(names, (size_t)(path - names), controller) : path != names)
            continue;
        path++;
        const size_t length = strcspn(path, "\n");
        gf_fmt(ret, size, "%.*s", length == 1 ? 0 : (int)length, path);
        return true;
    }
    return false;
}

static bool find_group(const char *root, const char *controller, char *ret, size_t size)
{
    char text[8192];
    return gf_cgroup_find(root, controller, text, sizeof(text), ret, size);
}

bool gf_cgroup_to_parent(char *group)
{
    char *slash = strrchr(group, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return true;
}

/*
 * A file of the group, or of the nearest parent that shows it: without a cgroup namespace a
 * container's own group is mounted at the top, and a controller may be off below some level.
 */
static int read_nearest(const char *root, const char *mount, char *group, const char *file,
                        char *buf, size_t size)
{
    do {
        const int length = gf_sysfile_read(buf, size, root, "%s%s/%s", mount, group, file);
        if (length >= 0)
            return length;
    } while (gf_cgroup_to_parent(group));
    return -ENOENT;
}

static const char *const mounts_v2[] = {MOUNT, GF_CGROUP_MOUNT_UNIFIED};

int gf_cgroup_cpuset(const char *root, struct gf_cpus *ret)
{
    char group[1024], text[4096];

    if (find_group(root, "cpuset", group, sizeof(group)) &&
        (read_nearest(root, MOUNT "/cpuset", group, "cpuset.effective_cpus", text, sizeof(text)) >
             0 ||
         (find_group(root, "cpuset", group, sizeof(group)) &&
          read_nearest(root, MOUNT "/cpuset", group, "cpuset.cpus", text, sizeof(text)) > 0)) &&
        gf_set_parse(text, ret) == 0)
        return 0;
    for (size_t i = 0; i < GF_ARRAY_LEN(mounts_v2); i++)
        if (find_group(root, "", group, sizeof(group)) &&
            read_nearest(root, mounts_v2[i], group, "cpuset.cpus.effective", text, sizeof(text)) >
                0 &&
            gf_set_parse(text, ret) == 0)
            return 0;
    return -ENOENT;
}

static double share(long long quota, long long period)
{
    return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

/* "max 100000", "400000 100000" */
static double quota_v2(const char *text)
{
    char *end;
    const long long quota = strtoll(text, &end, 10);
    return end != text ? share(quota, strtoll(end, NULL, 10)) : 0;
}

static double tighter(double a, double b)
{
    return a > 0 && (b <= 0 || a < b) ? a : b;
}

static double quota_v1(const char *root, const char *mount, const char *group)
{
    char quota[32], period[32];

    if (gf_sysfile_read(quota, sizeof(quota), root, "%s%s/cpu.cfs_quota_us", mount, group) <= 0 ||
        gf_sysfile_read(period, sizeof(period), root, "%s%s/cpu.cfs_period_us", mount, group) <= 0)
        return 0;
    return share(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

double gf_cgroup_quota(const char *root)
{
    static const char *const mounts_v1[] = {MOUNT "/cpu", MOUNT "/cpu,cpuacct"};
    char group[1024], text[64];
    double best = 0;

    for (size_t i = 0; i < GF_ARRAY_LEN(mounts_v2); i++) {
        if (!find_group(root, "", group, sizeof(group)))
            break;
        do {
            if (gf_sysfile_read(text, sizeof(text), root, "%s%s/cpu.max", mounts_v2[i], group) > 0)
                best = tighter(quota_v2(text), best);
        } while (gf_cgroup_to_parent(group));
    }
    for (size_t i = 0; i < GF_ARRAY_LEN(mounts_v1); i++) {
        if (!find_group(root, "cpu", group, sizeof(group)))
            break;
        do
            best = tighter(quota_v1(root, mounts_v1[i], group), best);
        while (gf_cgroup_to_parent(group));
    }
    return best;
}

bool gf_cgroup_has_no_swap(const char *root)
{
    char group[1024], text[64];

    for (size_t i = 0; i < GF_ARRAY_LEN(mounts_v2); i++) {
        if (!find_group(root, "", group, sizeof(group)))
            break;
        do
            if (gf_sysfile_read(text, sizeof(text), root, "%s%s/memory.swap.max", mounts_v2[i],
                                group) > 0 &&
                strcmp(text, "0") == 0)
                return true;
        while (gf_cgroup_to_parent(group));
    }
    return false;
}

static uint64_t threads_left(const char *root, const char *mount, const char *group)
{
    char most[32], now[32], *end;

    if (gf_sysfile_read(most, sizeof(most), root, "%s%s/pids.max", mount, group) <= 0 ||
        gf_sysfile_read(now, sizeof(now), root, "%s%s/pids.current", mount, group) <= 0)
        return UINT64_MAX;
    const uint64_t limit = strtoull(most, &end, 10), used = strtoull(now, NULL, 10);
    if (end == most) /* "max" */
        return UINT64_MAX;
    return limit > used ? limit - used : 0;
}

uint64_t gf_cgroup_threads_left(const char *root)
{
    static const struct {
        const char *mount, *controller;
    } places[] = {{MOUNT, ""}, {GF_CGROUP_MOUNT_UNIFIED, ""}, {MOUNT "/pids", "pids"}};
    char group[1024];
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < GF_ARRAY_LEN(places); i++) {
        if (!find_group(root, places[i].controller, group, sizeof(group)))
            continue;
        do
            least = gf_min(least, threads_left(root, places[i].mount, group));
        while (gf_cgroup_to_parent(group));
    }
    return least;
}

uint64_t gf_cgroup_throttled_ns(const char *root)
{
    static const char *const mounts_v1[] = {MOUNT "/cpu", MOUNT "/cpu,cpuacct"};
    char group[1024], text[1024];

    for (size_t i = 0; i < GF_ARRAY_LEN(mounts_v2); i++) {
        if (find_group(root, "", group, sizeof(group)) &&
            read_nearest(root, mounts_v2[i], group, "cpu.stat", text, sizeof(text)) > 0 &&
            strstr(text, "throttled_usec"))
            return gf_sysfile_value(text, "throttled_usec") * 1000;
    }
    for (size_t i = 0; i < GF_ARRAY_LEN(mounts_v1); i++)
        if (find_group(root, "cpu", group, sizeof(group)) &&
            read_nearest(root, mounts_v1[i], group, "cpu.stat", text, sizeof(text)) > 0)
            return gf_sysfile_value(text, "throttled_time");
    return 0;
}
