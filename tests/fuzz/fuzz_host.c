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

#include "tree.h"

static bool is_number(double value)
{
    return value >= 0 && value <= (double)INT64_MAX;
}

static void check_headroom(int node)
{
    struct gf_headroom room;

    gf_headroom_read(root, node, &room);
    CHECK(room.bytes <= room.cgroup && room.bytes <= room.host && room.bytes <= room.node);
    CHECK(room.bytes == room.cgroup || room.bytes == room.host || room.bytes == room.node);
    CHECK((room.cgroup == GF_HEADROOM_UNKNOWN) == (room.cgroup_file == NULL));
    CHECK(room.cgroup <= room.limit);
    CHECK(gf_headroom_source(&room));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
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
    check_headroom(-1);
    check_headroom(0);
    gf_pressure_read(root, &pressure);
    CHECK(pressure.stalled_us == GF_PRESSURE_UNKNOWN || pressure.stalled_file);
    CHECK(pressure.limited == GF_PRESSURE_UNKNOWN || pressure.limited_file);
    CHECK(is_number(gf_cgroup_quota(root)));
    gf_cgroup_throttled_ns(root);
    gf_cgroup_cpuset(root, &cpus);
    return 0;
}
