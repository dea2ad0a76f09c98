/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's files about memory and control groups, with any content. Another kernel, or an
 * emulation of it, may have written them. Zero bytes divide the input into parts. Each part is one
 * file, in the order of the list below.
 */
#include "fuzz.h"

#include "os/cgroup.h"
#include "os/headroom.h"
#include "os/pressure.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define G "sys/fs/cgroup"

static const char *const files[] = {
    "proc/self/cgroup",
    G "/memory.max",
    G "/memory.high",
    G "/memory.current",
    G "/memory.stat",
    G "/memory.events",
    G "/memory.pressure",
    G "/cpu.max",
    G "/cpu.stat",
    G "/cpuset.cpus.effective",
    G "/a/memory.max",
    G "/a/memory.current",
    G "/a/memory.events",
    G "/a/cpu.max",
    G "/memory/memory.limit_in_bytes",
    G "/memory/memory.usage_in_bytes",
    G "/memory/memory.stat",
    G "/memory/memory.failcnt",
    G "/memory/memory.oom_control",
    G "/cpu/cpu.cfs_quota_us",
    G "/cpu/cpu.cfs_period_us",
    G "/cpu/cpu.stat",
    G "/cpuset/cpuset.cpus",
    "proc/meminfo",
    "sys/devices/system/node/node0/meminfo",
    "proc/pressure/memory",
};
#define FILES (sizeof(files) / sizeof(files[0]))

static char root[] = "/dev/shm/gpufeed-fuzz-XXXXXX";

static void path_of(const char *file, char *ret, size_t size)
{
    snprintf(ret, size, "%s/%s", root, file);
}

static void remove_root(void)
{
    char command[64];
    snprintf(command, sizeof(command), "rm -rf %s", root);
    if (system(command)) {
    }
}

static void make_root(void)
{
    char path[256];

    if (!mkdtemp(root)) {
        memcpy(root, "/tmp/gpufeed-fuzz-XXXXXX", sizeof("/tmp/gpufeed-fuzz-XXXXXX"));
        CHECK(mkdtemp(root));
    }
    atexit(remove_root);
    for (size_t i = 0; i < FILES; i++) {
        path_of(files[i], path, sizeof(path));
        for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
            *slash = '\0';
            mkdir(path, 0777);
        }
    }
}

/* A missing part is a missing file. */
static void put_files(const uint8_t *data, size_t size)
{
    char path[256];

    for (size_t i = 0; i < FILES; i++) {
        const uint8_t *end = size ? memchr(data, 0, size) : NULL;
        const size_t length = end ? (size_t)(end - data) : size;
        path_of(files[i], path, sizeof(path));
        unlink(path);
        if (length) {
            const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
            CHECK(fd >= 0 && write(fd, data, length) == (ssize_t)length);
            close(fd);
        }
        const size_t used = length + (end != NULL);
        data += used;
        size -= used;
    }
}

static bool is_number(double value)
{
    return value >= 0 && value < 1e18;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    struct gf_headroom room;
    struct gf_pressure pressure;
    struct gf_cpus cpus;

    /*
     * The code reads each folder on the path of a group. Paths of many folders would only take
     * time.
     */
    for (size_t i = 0, folders = 0; i < size; i++)
        if (data[i] == '/' && ++folders > 64)
            return 0;
    if (!made)
        make_root();
    made = true;
    put_files(data, size);
    for (int node = -1; node < 1; node++) {
        gf_headroom_read(root, node, &room);
        CHECK(room.bytes <= room.cgroup && room.bytes <= room.host && room.bytes <= room.node);
        CHECK(room.bytes == room.cgroup || room.bytes == room.host || room.bytes == room.node);
        CHECK((room.cgroup == GF_HEADROOM_UNKNOWN) == (room.cgroup_file == NULL));
        CHECK(room.cgroup <= room.limit);
        CHECK(gf_headroom_source(&room));
    }
    gf_pressure_read(root, &pressure);
    CHECK(pressure.stalled_us == GF_PRESSURE_UNKNOWN || pressure.stalled_file);
    CHECK(pressure.limited == GF_PRESSURE_UNKNOWN || pressure.limited_file);
    CHECK(is_number(gf_cgroup_quota(root)));
    gf_cgroup_throttled_ns(root);
    gf_cgroup_cpuset(root, &cpus);
    return 0;
}
