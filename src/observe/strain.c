/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/strain.h"

#include "base/fmt.h"
#include "observe/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static char events[512]; /* of version 2; "" where none is in sight */
static char failures[512]; /* of version 1 */

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

/* "4:memory:/a/b", "0::/a/b" */
static void take_group(const char *line)
{
    const char *names = strchr(line, ':');
    const char *path = names ? strchr(names + 1, ':') : NULL;

    if (!path)
        return;
    const char *below = path[1] == '/' && path[2] ? path + 1 : "";
    if (path == names + 1)
        gf_fmt(events, sizeof(events), "/sys/fs/cgroup%s/memory.events", below);
    else if (strncmp(names + 1, "memory:", 7) == 0)
        gf_fmt(failures, sizeof(failures), "/sys/fs/cgroup/memory%s/memory.failcnt", below);
}

void gf_strain_open(void)
{
    char buf[1024];
    struct gf_raw_lines lines = {.buf = buf, .size = sizeof(buf)};

    if (!gf_raw_open(&lines, "/proc/self/cgroup"))
        return;
    for (const char *line; (line = gf_raw_next(&lines));)
        take_group(line);
    gf_raw_close(&lines);
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
    errno = error;
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
}
