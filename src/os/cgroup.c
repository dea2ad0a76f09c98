/* SPDX-License-Identifier: Apache-2.0 */
#include "os/cgroup.h"

#include "base/fmt.h"
#include "os/own_table.h"
#include "os/procfs.h"

#include <stdlib.h>

#define MOUNT GF_CGROUP_MOUNT

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
    char file[GF_PROCFS_PATH_MAX];
    bool valid = true;

    gf_fmt(file, sizeof(file), "%s/proc/self/cgroup", search->root ? search->root : "");
    if (!gf_procfs_lines_open(&search->lines, file))
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

static bool find_group(const char *root, const char *controller, char *ret, size_t size)
{
    char line[2048];
    return gf_cgroup_find(root, controller, line, sizeof(line), ret, size);
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
 * Reads a file of the group, or of the nearest parent that has the file. The group's own file may
 * be missing for two reasons. In a container without a cgroup namespace, `group` is the path on the
 * host, but the group itself is mounted at the mount point. And a controller may be disabled below
 * some level of the hierarchy.
 */
static int read_nearest(const char *root, const char *mount, char *group, const char *file,
                        char *buf, size_t size)
{
    do {
        const int length = gf_procfs_read(buf, size, root, "%s%s/%s", mount, group, file);
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

static double quota_share(long long quota, long long period)
{
    return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

/*
 * Parses the text of cpu.max, "max 100000" or "400000 100000": quota and period in microseconds.
 * Returns the number of CPUs; 0 if unlimited.
 */
static double quota_v2(const char *text)
{
    char *end;
    const long long quota = strtoll(text, &end, 10);
    return end != text ? quota_share(quota, strtoll(end, NULL, 10)) : 0;
}

static double tighter_quota(double a, double b)
{
    return a > 0 && (b <= 0 || a < b) ? a : b;
}

static double quota_v1(const char *root, const char *mount, const char *group)
{
    char quota[32], period[32];

    if (gf_procfs_read(quota, sizeof(quota), root, "%s%s/cpu.cfs_quota_us", mount, group) <= 0 ||
        gf_procfs_read(period, sizeof(period), root, "%s%s/cpu.cfs_period_us", mount, group) <= 0)
        return 0;
    return quota_share(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
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
            if (gf_procfs_read(text, sizeof(text), root, "%s%s/cpu.max", mounts_v2[i], group) > 0)
                best = tighter_quota(quota_v2(text), best);
        } while (gf_cgroup_to_parent(group));
    }
    for (size_t i = 0; i < GF_ARRAY_LEN(mounts_v1); i++) {
        if (!find_group(root, "cpu", group, sizeof(group)))
            break;
        do
            best = tighter_quota(quota_v1(root, mounts_v1[i], group), best);
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
            if (gf_procfs_read(text, sizeof(text), root, "%s%s/memory.swap.max", mounts_v2[i],
                               group) > 0 &&
                strcmp(text, "0") == 0)
                return true;
        while (gf_cgroup_to_parent(group));
    }
    return false;
}

/* Whether the file of the group exists and sets a limit: its text is neither empty nor "max". */
static bool is_limited(const char *root, const char *mount, const char *group, const char *file)
{
    char text[64];
    return gf_procfs_read(text, sizeof(text), root, "%s%s/%s", mount, group, file) > 0 &&
           strcmp(text, "max") != 0;
}

bool gf_cgroup_limits_reading(const char *root)
{
    static const struct {
        const char *mount, *controller, *files[2];
    } places[] = {
        {MOUNT, "", {"memory.high", "io.max"}},
        {GF_CGROUP_MOUNT_UNIFIED, "", {"memory.high", "io.max"}},
        {MOUNT "/blkio",
         "blkio",
         {"blkio.throttle.read_bps_device", "blkio.throttle.read_iops_device"}},
    };
    char group[1024];

    for (size_t i = 0; i < GF_ARRAY_LEN(places); i++) {
        if (!find_group(root, places[i].controller, group, sizeof(group)))
            continue;
        do
            for (size_t k = 0; k < GF_ARRAY_LEN(places[i].files); k++)
                if (is_limited(root, places[i].mount, group, places[i].files[k]))
                    return true;
        while (gf_cgroup_to_parent(group));
    }
    return false;
}

static uint64_t threads_left(const char *root, const char *mount, const char *group)
{
    char most[32], now[32], *end;

    if (gf_procfs_read(most, sizeof(most), root, "%s%s/pids.max", mount, group) <= 0 ||
        gf_procfs_read(now, sizeof(now), root, "%s%s/pids.current", mount, group) <= 0)
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

static uint64_t read_throttled_ns(const char *root)
{
    static const char *const mounts_v1[] = {MOUNT "/cpu", MOUNT "/cpu,cpuacct"};
    char group[1024], text[1024];

    for (size_t i = 0; i < GF_ARRAY_LEN(mounts_v2); i++) {
        if (find_group(root, "", group, sizeof(group)) &&
            read_nearest(root, mounts_v2[i], group, "cpu.stat", text, sizeof(text)) > 0 &&
            strstr(text, "throttled_usec"))
            return gf_procfs_value(text, "throttled_usec") * 1000;
    }
    for (size_t i = 0; i < GF_ARRAY_LEN(mounts_v1); i++)
        if (find_group(root, "cpu", group, sizeof(group)) &&
            read_nearest(root, mounts_v1[i], group, "cpu.stat", text, sizeof(text)) > 0)
            return gf_procfs_value(text, "throttled_time");
    return 0;
}

struct throttled {
    const char *root;
    uint64_t ns;
};

static void run_throttled(void *closure)
{
    struct throttled *throttled = closure;
    throttled->ns = read_throttled_ns(throttled->root);
}

uint64_t gf_cgroup_throttled_ns(const char *root)
{
    struct throttled throttled = {root, 0};

    gf_own_table_run(run_throttled, &throttled);
    return throttled.ns;
}

struct run {
    char digits[GF_CONTAINER_ID];
    size_t length;
};

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/*
 * Adds the next character of the text. Returns true if the character ends a run of exactly 64 hex
 * digits.
 */
static bool feed_run(struct run *run, char c)
{
    if (is_hex(c)) {
        if (run->length < GF_CONTAINER_ID - 1)
            run->digits[run->length] = c;
        run->length++;
        return false;
    }
    const bool whole = run->length == GF_CONTAINER_ID - 1;
    if (!whole)
        run->length = 0;
    return whole;
}

static bool find_run(const char *path, struct run *run)
{
    const int fd = gf_procfs_open(AT_FDCWD, path);
    char buf[512];
    bool found = false;

    if (fd < 0)
        return false;
    for (ssize_t got; !found && (got = gf_procfs_chunk(fd, buf, sizeof(buf))) > 0;)
        for (ssize_t i = 0; i < got && !found; i++)
            found = feed_run(run, buf[i]);
    gf_procfs_close(fd);
    return found;
}

static void find_id(void *closure)
{
    /*
     * In a cgroup namespace, the first file shows no path. Then the id is in the paths of the
     * container's mounts.
     */
    static const char *const paths[] = {"/proc/self/cgroup", "/proc/self/mountinfo"};

    for (size_t i = 0; i < GF_ARRAY_LEN(paths); i++) {
        struct run run = {.length = 0};
        if (!find_run(paths[i], &run))
            continue;
        memcpy(closure, run.digits, GF_CONTAINER_ID - 1);
        return;
    }
}

bool gf_container_id(char ret[GF_CONTAINER_ID])
{
    memset(ret, 0, GF_CONTAINER_ID);
    gf_own_table_run(find_id, ret);
    return *ret;
}
