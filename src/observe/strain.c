/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/strain.h"

#include "base/fmt.h"
#include "observe/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* Files of the group in version 2; "" where none is in sight. */
static char events[512], pressure[512], cpu_stat[512];
/* In version 1. */
static char failures[512], cpu_stat_v1[2][512];
static uint64_t throttled_seen_us;

struct row {
    const char *key;
    uint64_t *value;
};

/* Adds the values of the lines whose first word is a key; several lines may feed one value. */
static bool read_rows(const char *path, const struct row *rows, size_t count)
{
    char buf[1024];
    struct gf_raw_lines lines = {.buf = buf, .size = sizeof(buf)};

    if (!*path || !gf_raw_open(&lines, path))
        return false;
    for (const char *line; (line = gf_raw_next(&lines));)
        for (size_t i = 0; i < count; i++) {
            const size_t length = strlen(rows[i].key);
            if (strncmp(line, rows[i].key, length) == 0 && (line[length] == ' ' || !length))
                *rows[i].value += gf_raw_number(line + length + (length != 0));
        }
    gf_raw_close(&lines);
    return true;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234", and a second line. */
static bool read_waits(uint64_t *ret_us)
{
    char buf[256];
    struct gf_raw_lines lines = {.buf = buf, .size = sizeof(buf)};
    const char *line, *total = NULL;

    if (!*pressure || !gf_raw_open(&lines, pressure))
        return false;
    if ((line = gf_raw_next(&lines)) && strncmp(line, "some ", 5) == 0 &&
        (total = strstr(line, "total=")))
        *ret_us = gf_raw_number(total + 6);
    gf_raw_close(&lines);
    return total != NULL;
}

static uint64_t read_throttled(void)
{
    uint64_t us = 0, ns = 0;
    const struct row row = {"throttled_usec", &us}, row_v1 = {"throttled_time", &ns};

    if (!read_rows(cpu_stat, &row, 1) || !us)
        for (size_t i = 0; i < GF_ARRAY_LEN(cpu_stat_v1) && !ns; i++)
            read_rows(cpu_stat_v1[i], &row_v1, 1);
    return us + ns / 1000;
}

/* "4:memory:/a/b", "0::/a/b" */
static void take_group(const char *line)
{
    const char *names = strchr(line, ':');
    const char *path = names ? strchr(names + 1, ':') : NULL;

    if (!path)
        return;
    const char *below = path[1] == '/' && path[2] ? path + 1 : "";
    if (path == names + 1) {
        gf_fmt(events, sizeof(events), "/sys/fs/cgroup%s/memory.events", below);
        gf_fmt(pressure, sizeof(pressure), "/sys/fs/cgroup%s/memory.pressure", below);
        gf_fmt(cpu_stat, sizeof(cpu_stat), "/sys/fs/cgroup%s/cpu.stat", below);
    } else if (strncmp(names + 1, "cpu,cpuacct:", 12) == 0 || strncmp(names + 1, "cpu:", 4) == 0) {
        gf_fmt(cpu_stat_v1[0], sizeof(*cpu_stat_v1), "/sys/fs/cgroup/cpu%s/cpu.stat", below);
        gf_fmt(cpu_stat_v1[1], sizeof(*cpu_stat_v1), "/sys/fs/cgroup/cpu,cpuacct%s/cpu.stat", below);
    } else if (strncmp(names + 1, "memory:", 7) == 0)
        gf_fmt(failures, sizeof(failures), "/sys/fs/cgroup/memory%s/memory.failcnt", below);
}

void gf_strain_open(void)
{
    static bool opened;
    char buf[1024];
    struct gf_raw_lines lines = {.buf = buf, .size = sizeof(buf)};

    if (__atomic_test_and_set(&opened, __ATOMIC_RELAXED) || !gf_raw_open(&lines, "/proc/self/cgroup"))
        return;
    for (const char *line; (line = gf_raw_next(&lines));)
        take_group(line);
    gf_raw_close(&lines);
    gf_strain_throttled_since();
}

void gf_strain_read(struct gf_strain *ret)
{
    const int error = errno;
    *ret = (struct gf_strain){0};
    const struct row machine[] = {
        {"compact_stall", &ret->compactions}, {"allocstall_dma", &ret->reclaims},
        {"allocstall_dma32", &ret->reclaims}, {"allocstall_normal", &ret->reclaims},
        {"allocstall_movable", &ret->reclaims}, {"thp_fault_alloc", &ret->huge},
    };
    const struct row group[] = {{"high", &ret->high}, {"max", &ret->max}};
    const struct row old[] = {{"", &ret->max}};

    ret->known = read_rows("/proc/vmstat", machine, GF_ARRAY_LEN(machine));
    read_rows(events, group, GF_ARRAY_LEN(group));
    read_rows(failures, old, GF_ARRAY_LEN(old));
    ret->waits_known = read_waits(&ret->waited_us);
    ret->throttled_us = read_throttled();
    errno = error;
}

uint64_t gf_strain_throttled_since(void)
{
    const int error = errno;
    const uint64_t now = read_throttled();
    const uint64_t before = __atomic_exchange_n(&throttled_seen_us, now, __ATOMIC_RELAXED);

    errno = error;
    return now - gf_min(before, now);
}

void gf_strain_rise(const struct gf_strain *before, const struct gf_strain *now,
                      struct gf_strain *ret)
{
    *ret = (struct gf_strain){.known = before->known && now->known};
    if (!ret->known)
        return;
    ret->compactions = now->compactions - before->compactions;
    ret->reclaims = now->reclaims - before->reclaims;
    ret->huge = now->huge - before->huge;
    /* A process that was moved to another group reads smaller numbers. */
    ret->high = now->high - gf_min(before->high, now->high);
    ret->max = now->max - gf_min(before->max, now->max);
    ret->waits_known = before->waits_known && now->waits_known;
    ret->waited_us = now->waited_us - gf_min(before->waited_us, now->waited_us);
    ret->throttled_us = now->throttled_us - gf_min(before->throttled_us, now->throttled_us);
}
