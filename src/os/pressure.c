/* SPDX-License-Identifier: Apache-2.0 */
#include "os/pressure.h"

#include "base/atomic.h"
#include "base/fmt.h"
#include "os/cgroup.h"
#include "os/files.h"
#include "os/own_table.h"
#include "os/permit.h"
#include "os/procfs.h"

#include <stdatomic.h>

#define UNKNOWN GF_PRESSURE_UNKNOWN

struct row {
    const char *key; /* word before the number in a line; "" if the file contains only a number */
    uint64_t *value;
};

/*
 * For each line whose first word is the key of a row, adds the line's number to the row's value.
 * Several rows may share a value.
 */
static void add_lines(struct gf_procfs_lines *lines, const struct row *rows, size_t count)
{
    for (const char *line; (line = gf_procfs_lines_next(lines));)
        for (size_t i = 0; i < count; i++) {
            const size_t length = strlen(rows[i].key);
            if (strncmp(line, rows[i].key, length) == 0 && (line[length] == ' ' || !length))
                *rows[i].value += gf_procfs_number(line + length + (length != 0));
        }
}

static bool add_rows(const struct gf_cgroup_walk *walk, const char *file, const struct row *rows,
                     size_t count)
{
    char buf[1024], path[GF_PROCFS_PATH_MAX];
    struct gf_procfs_lines lines = {.buf = buf, .size = sizeof(buf)};

    gf_fmt(path, sizeof(path), "/%s%s/%s", walk->place->mount, walk->group, file);
    if (!gf_procfs_lines_open_in(&lines, walk->root, path))
        return false;
    add_lines(&lines, rows, count);
    gf_procfs_lines_close(&lines);
    return true;
}

/*
 * Returns the descriptor of the file. Returns -1 in a sealed process (os/permit.h), because a
 * seccomp filter may forbid reading the file.
 */
static int counter_file(const struct gf_kept_file *file)
{
    return gf_permit_sealed() ? -1 : gf_kept_file_get(file);
}

static bool add_kept_rows(const struct gf_kept_file *file, const struct row *rows, size_t count)
{
    char buf[1024];
    struct gf_procfs_lines lines = {.buf = buf, .size = sizeof(buf)};
    const int fd = counter_file(file);

    if (fd < 0)
        return false;
    gf_procfs_lines_begin(&lines, fd);
    add_lines(&lines, rows, count);
    return !lines.error;
}

/*
 * Parses the number after "total=" in the line "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234".
 */
static bool parse_stalled(const char *text, uint64_t *ret_us)
{
    const char *total = gf_begins(text, "some ") ? strstr(text, "total=") : NULL;

    if (total)
        *ret_us = gf_procfs_number(total + 6);
    return total;
}

static void add_known(uint64_t *to, uint64_t value)
{
    *to = (*to == UNKNOWN ? 0 : *to) + value;
}

static void read_group_pressure(const struct gf_cgroup_walk *walk, struct gf_pressure *ret)
{
    uint64_t limited = 0, killed = 0;
    const struct row rows[] = {
        {"high", &limited}, {"max", &limited}, {"oom", &killed}, {"oom_kill", &killed}};
    char text[256];

    if (ret->stalled_us == UNKNOWN &&
        gf_cgroup_read(walk, "memory.pressure", text, sizeof(text)) > 0 &&
        parse_stalled(text, &ret->stalled_us))
        ret->stalled_file = "memory.pressure";
    if (!add_rows(walk, "memory.events", rows, GF_ARRAY_LEN(rows)))
        return;
    add_known(&ret->limited, limited);
    add_known(&ret->killed, killed);
    ret->limited_file = "memory.events";
}

static void read_group_v1_pressure(const struct gf_cgroup_walk *walk, struct gf_pressure *ret)
{
    uint64_t limited = 0, killed = 0;
    const struct row failures = {"", &limited}, kills = {"oom_kill", &killed};

    if (!add_rows(walk, "memory.failcnt", &failures, 1))
        return;
    add_known(&ret->limited, limited);
    ret->limited_file = "memory.failcnt";
    if (add_rows(walk, "memory.oom_control", &kills, 1))
        add_known(&ret->killed, killed);
}

struct reading {
    const char *root;
    struct gf_pressure *ret;
};

static void read_pressure(void *closure)
{
    const struct reading *reading = closure;
    struct gf_cgroup_walk walk = {.root = reading->root, .place = gf_cgroup_memory_places};
    struct gf_pressure *ret = reading->ret;
    char text[256];

    while (gf_cgroup_next(&walk))
        if (*walk.place->controller)
            read_group_v1_pressure(&walk, ret);
        else
            read_group_pressure(&walk, ret);
    if (ret->stalled_us == UNKNOWN &&
        gf_procfs_read(text, sizeof(text), reading->root, "proc/pressure/memory") > 0 &&
        parse_stalled(text, &ret->stalled_us))
        ret->stalled_file = "/proc/pressure/memory";
}

void gf_pressure_read(const char *root, struct gf_pressure *ret)
{
    struct reading reading = {root, ret};

    *ret = (struct gf_pressure){.stalled_us = UNKNOWN, .limited = UNKNOWN, .killed = UNKNOWN};
    gf_own_table_run(read_pressure, &reading);
}

/*
 * The files whose counters explain stalls in the log: one of the machine, the others of the
 * process's group. They stay open, because a stalled thread reads them, and must not open files.
 * For a missing file, fd stays -1.
 */
#define COUNTERS(...)                                                                              \
    {                                                                                              \
        .path = (__VA_ARGS__), .everywhere = true, .fd = -1, .opening = ATOMIC_FLAG_INIT           \
    }
static struct gf_kept_file vmstat = COUNTERS("/proc/vmstat");
static struct gf_kept_file events = COUNTERS(NULL), pressure = COUNTERS(NULL);
static struct gf_kept_file cpu_stat = COUNTERS(NULL);
static struct gf_kept_file failures_v1 = COUNTERS(NULL), cpu_stat_v1 = COUNTERS(NULL);
static _Atomic uint64_t throttled_seen_us;

static void read_throttled(uint64_t *ret_us)
{
    uint64_t us = 0, ns = 0;
    const struct row row = {"throttled_usec", &us}, row_v1 = {"throttled_time", &ns};

    if (!add_kept_rows(&cpu_stat, &row, 1) || !us)
        add_kept_rows(&cpu_stat_v1, &row_v1, 1);
    *ret_us = us + ns / 1000;
}

static void open_counter(struct gf_kept_file *file, const char *mount, const char *group,
                         const char *name)
{
    char path[768];

    gf_fmt(path, sizeof(path), "/%s%s/%s", mount, group, name);
    file->path = path;
    gf_kept_file_open(file);
    file->path = NULL;
}

void gf_pressure_counters_open(void)
{
    static atomic_flag opened = ATOMIC_FLAG_INIT;
    char line[1024], group[512];

    if (atomic_flag_test_and_set_explicit(&opened, memory_order_relaxed))
        return;
    gf_kept_file_open(&vmstat);
    if (gf_cgroup_find("", "", line, sizeof(line), group, sizeof(group))) {
        open_counter(&events, GF_CGROUP_MOUNT, group, "memory.events");
        open_counter(&pressure, GF_CGROUP_MOUNT, group, "memory.pressure");
        open_counter(&cpu_stat, GF_CGROUP_MOUNT, group, "cpu.stat");
    }
    if (gf_cgroup_find("", "cpu", line, sizeof(line), group, sizeof(group))) {
        open_counter(&cpu_stat_v1, GF_CGROUP_MOUNT "/cpu", group, "cpu.stat");
        open_counter(&cpu_stat_v1, GF_CGROUP_MOUNT "/cpu,cpuacct", group, "cpu.stat");
    }
    if (gf_cgroup_find("", "memory", line, sizeof(line), group, sizeof(group)))
        open_counter(&failures_v1, GF_CGROUP_MOUNT "/memory", group, "memory.failcnt");
    gf_pressure_throttled_since();
}

static bool read_waited(uint64_t *ret_us)
{
    char text[256];
    const int fd = counter_file(&pressure);
    const ssize_t got = fd < 0 ? -1 : syscall(SYS_pread64, fd, text, sizeof(text) - 1, 0L);

    if (got <= 0)
        return false;
    text[got] = '\0';
    return parse_stalled(text, ret_us);
}

void gf_pressure_counters_read(struct gf_pressure_counters *ret)
{
    gf_keep_errno();
    *ret = (struct gf_pressure_counters){0};
    const struct row machine[] = {
        {"compact_stall", &ret->compactions},   {"allocstall_dma", &ret->reclaims},
        {"allocstall_dma32", &ret->reclaims},   {"allocstall_normal", &ret->reclaims},
        {"allocstall_movable", &ret->reclaims}, {"thp_fault_alloc", &ret->huge},
    };
    const struct row group[] = {{"high", &ret->high}, {"max", &ret->max}};
    const struct row group_v1[] = {{"", &ret->max}};

    ret->known = add_kept_rows(&vmstat, machine, GF_ARRAY_LEN(machine));
    add_kept_rows(&events, group, GF_ARRAY_LEN(group));
    add_kept_rows(&failures_v1, group_v1, GF_ARRAY_LEN(group_v1));
    ret->waits_known = read_waited(&ret->waited_us);
    read_throttled(&ret->throttled_us);
}

uint64_t gf_pressure_throttled(void)
{
    gf_keep_errno();
    uint64_t now;

    read_throttled(&now);
    return now;
}

uint64_t gf_pressure_throttled_since(void)
{
    const uint64_t now = gf_pressure_throttled(),
                   before = gf_exchange_relaxed(&throttled_seen_us, now);
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
    /* If the process moved to another group, a counter may be smaller than before. */
    ret->high = now->high - gf_min(before->high, now->high);
    ret->max = now->max - gf_min(before->max, now->max);
    ret->waits_known = before->waits_known && now->waits_known;
    ret->waited_us = now->waited_us - gf_min(before->waited_us, now->waited_us);
    ret->throttled_us = now->throttled_us - gf_min(before->throttled_us, now->throttled_us);
}
