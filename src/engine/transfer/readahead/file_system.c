/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/readahead/file_system.h"

#include "base/fmt.h"
#include "os/cgroup.h"
#include "os/own_table.h"
#include "os/procfs.h"

#include <string.h>

/*
 * Whether files of this file system are on a disk of this machine. An overlay is assumed to be on a
 * disk, because its layers are not known in a container.
 */
static bool is_on_disk(const char *type)
{
    static const char *const types[] = {"ext4", "xfs", "f2fs", "btrfs", "overlay"};

    for (size_t i = 0; i < GF_ARRAY_LEN(types); i++) {
        const size_t length = strlen(types[i]);
        if (strncmp(type, types[i], length) == 0 && type[length] == ' ')
            return true;
    }
    return false;
}

struct look_up {
    const char *root, *device; /* "8:1" */
    bool ret;
};

/*
 * Whether a line of mountinfo describes the device, and its file system is on a disk. A line is,
 * for example, "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext4 /dev/root rw".
 */
static bool is_disk_line(const char *line, const char *device)
{
    const size_t length = strlen(device);
    const char *at = strchr(line, ' ');

    at = at ? strchr(at + 1, ' ') : NULL;
    if (!at || strncmp(at + 1, device, length) != 0 || at[1 + length] != ' ')
        return false;
    const char *const type = strstr(at, " - ");
    return type && is_on_disk(type + 3);
}

static void look_up(void *closure)
{
    struct look_up *const look_up = closure;
    char text[4096], file[GF_PROCFS_PATH_MAX];
    struct gf_procfs_lines lines = {.buf = text, .size = sizeof(text)};
    bool found = false;
    const char *line;

    gf_fmt(file, sizeof(file), "%s/proc/self/mountinfo", look_up->root);
    if (!gf_procfs_lines_open(&lines, file))
        return;
    while (!found && (line = gf_procfs_lines_next(&lines)))
        found = !lines.continued && is_disk_line(line, look_up->device);
    gf_procfs_lines_close(&lines);
    look_up->ret = found && !gf_cgroup_limits_reading(look_up->root);
}

bool gf_file_system_allows_readahead(const char *root, unsigned major, unsigned minor)
{
    char device[32];
    struct look_up closure = {.root = root, .device = device};

    gf_fmt(device, sizeof(device), "%u:%u", major, minor);
    gf_own_table_run(look_up, &closure);
    return closure.ret;
}
