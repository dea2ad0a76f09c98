/* SPDX-License-Identifier: Apache-2.0 */
/* Checks where the program's data is stored, and when the kernel writes checkpoints to disk. */
#include "cli/doctor/checks.h"

#include "cli/doctor/host_line.h"
#include "os/procfs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Even a fast disk needs more than a few seconds to write this many bytes. */
#define DIRTY_MOST (UINT64_C(32) << 30)
#define READ_AHEAD_LEAST_KB 128 /* the kernel's default */

static uint64_t read_meminfo(const struct gf_check_input *input, const char *key)
{
    static char text[8192];

    if (gf_procfs_read(text, sizeof(text), input->root, "proc/meminfo") <= 0)
        return 0;
    const char *field = gf_procfs_field(text, key);
    return field ? gf_procfs_number(field) << 10 : 0;
}

void gf_check_write_back(const struct gf_check_input *input, struct gf_findings *ret)
{
    long bytes = 0, percent;
    const uint64_t memory = read_meminfo(input, "MemTotal");

    if (gf_host_number(input, &bytes, "proc/sys/vm/dirty_background_bytes") && bytes) {
        percent = 0;
    } else if (!memory || !gf_host_number(input, &percent, "proc/sys/vm/dirty_background_ratio")) {
        return;
    }
    const uint64_t most = bytes ? (uint64_t)bytes : memory / 100 * (uint64_t)percent;
    if (most <= DIRTY_MOST) {
        gf_finding_add(ret, gf_status_ok, "write-back begins at %.3g GiB of dirty pages",
                       (double)most / (1 << 30));
        return;
    }
    struct gf_finding *finding =
        gf_finding_add(ret, gf_status_problem, "write-back begins only at %.3g GiB of dirty pages",
                       (double)most / (1 << 30));
    if (bytes)
        gf_finding_evidence(finding, "/proc/sys/vm/dirty_background_bytes: %ld", bytes);
    else
        gf_finding_evidence(finding, "/proc/sys/vm/dirty_background_ratio: %ld; MemTotal: %.4g GiB",
                            percent, (double)memory / (1 << 30));
    gf_finding_command(finding, "sysctl -w vm.dirty_background_bytes=%llu vm.dirty_bytes=%llu",
                       4ULL << 30, 16ULL << 30);
}

struct mount {
    char device[32], type[32], point[1024];
};

/* Parses a line of mountinfo: "36 35 259:2 /root /point options - type source ..." */
static bool parse_mount(const char *line, struct mount *ret)
{
    const char *rest = strstr(line, " - ");
    unsigned major, minor;

    if (!rest || sscanf(line, "%*u %*u %u:%u %*s %1023s", &major, &minor, ret->point) != 3 ||
        *ret->point != '/' || sscanf(rest + 3, "%31s", ret->type) != 1)
        return false;
    snprintf(ret->device, sizeof(ret->device), "%u:%u", major, minor);
    return true;
}

static bool is_below(const char *path, const char *point)
{
    const size_t length = strlen(point);
    return strcmp(point, "/") == 0 ||
           (strncmp(path, point, length) == 0 && (path[length] == '/' || path[length] == '\0'));
}

/*
 * Finds the mount that contains the folder: the one with the longest matching path. Of several
 * mounts with the same path, the last one counts, because it hides the others.
 */
static bool find_mount(const struct gf_check_input *input, const char *folder, struct mount *ret)
{
    char path[GF_PROCFS_PATH_MAX], buf[4096];
    struct gf_procfs_lines lines = {.buf = buf, .size = sizeof(buf)};
    struct mount mount;
    bool found = false;

    snprintf(path, sizeof(path), "%s/proc/self/mountinfo", input->root);
    if (!gf_procfs_lines_open(&lines, path))
        return false;
    for (char *line; (line = gf_procfs_lines_next(&lines));)
        if (!lines.continued && parse_mount(line, &mount) && is_below(folder, mount.point) &&
            (!found || strlen(mount.point) >= strlen(ret->point))) {
            *ret = mount;
            found = true;
        }
    gf_procfs_lines_close(&lines);
    return found;
}

static bool is_among(const char *word, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

/* Returns the read-ahead of a device in KiB; -1 if the device has none. */
static long read_ahead(const struct gf_check_input *input, const char *device)
{
    long value;

    if (gf_host_number(input, &value, "sys/class/bdi/%s/read_ahead_kb", device) ||
        gf_host_number(input, &value, "sys/dev/block/%s/queue/read_ahead_kb", device) ||
        gf_host_number(input, &value, "sys/dev/block/%s/../queue/read_ahead_kb", device))
        return value;
    return -1;
}

void gf_check_data(const struct gf_check_input *input, struct gf_findings *ret)
{
    static const char *const slow[] = {"nfs",        "nfs4",         "cifs",         "smb3",
                                       "9p",         "virtiofs",     "fuse",         "fuse.s3fs",
                                       "fuse.sshfs", "fuse.gcsfuse", "fuse.mount-s3"};
    static const char *const layers[] = {"overlay", "aufs", "fuse.fuse-overlayfs"};
    struct mount mount;
    char real[PATH_MAX]; /* realpath writes up to PATH_MAX bytes */
    const char *folder = input->data;

    if (!folder)
        return;
    if (!gf_check_is_recorded(input) && realpath(folder, real))
        folder = real;
    if (!find_mount(input, folder, &mount)) {
        gf_finding_add(ret, gf_status_unknown, "the file system of %s is unknown", folder);
        return;
    }
    const bool is_layer = is_among(mount.type, layers, GF_ARRAY_LEN(layers));
    const long ahead = read_ahead(input, mount.device);
    if (is_layer || is_among(mount.type, slow, GF_ARRAY_LEN(slow))) {
        struct gf_finding *finding =
            gf_finding_add(ret, gf_status_problem, "%s is on %s", folder,
                           is_layer ? "the container's own layer" : "network or remote storage");
        gf_finding_evidence(finding, "/proc/self/mountinfo: %s is %s", mount.point, mount.type);
        gf_finding_fix(finding, is_layer ? "put data and checkpoints on a bind mount or volume"
                                         : "copy the data to a local disk before the first epoch");
    } else if (ahead >= 0 && ahead < READ_AHEAD_LEAST_KB && strncmp(mount.device, "0:", 2) != 0) {
        struct gf_finding *finding = gf_finding_add(
            ret, gf_status_problem, "the disk of %s reads only %ld KiB ahead", folder, ahead);
        gf_finding_evidence(finding, "read_ahead_kb of device %s: %ld", mount.device, ahead);
        gf_finding_command(finding, "echo 1024 > /sys/class/bdi/%s/read_ahead_kb", mount.device);
    } else {
        gf_finding_add(ret, gf_status_ok, "%s is on %s", folder, mount.type);
    }
}
