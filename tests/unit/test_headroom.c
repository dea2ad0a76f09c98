/* SPDX-License-Identifier: Apache-2.0 */
#include "temp_root.h"

#include "os/headroom.h"
#include "os/pressure.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define UNKNOWN GF_HEADROOM_UNKNOWN

static struct gf_headroom read_room(int node)
{
    struct gf_headroom room;
    gf_headroom_read(root, node, &room);
    return room;
}

static void nothing_is_unknown(void **state)
{
    (void)state;
    const struct gf_headroom room = read_room(0);
    assert_true(room.bytes == UNKNOWN && room.cgroup == UNKNOWN && room.host == UNKNOWN &&
                room.node == UNKNOWN && room.limit == UNKNOWN);
    assert_null(room.cgroup_file);
    assert_string_equal(gf_headroom_source(&room), "nothing");
}

static void the_tightest_of_all_parents(void **state)
{
    (void)state;
    put(root, "proc/self/cgroup", "0::/jobs/42/step\n");
    put(root, "proc/meminfo", "MemTotal: 9000000 kB\nMemFree: 5 kB\nMemAvailable:  2097152 kB\n");
    put(root, "sys/fs/cgroup/jobs/memory.max", "1073741824\n");
    put(root, "sys/fs/cgroup/jobs/memory.current", "1048576000\n"); /* 24 MiB are left */
    /*
     * In addition, the kernel can reclaim these file pages. The key active_file is also the end of
     * another key.
     */
    put(root, "sys/fs/cgroup/jobs/memory.stat",
        "anon 1\nworkingset_inactive_file 7\ninactive_file 104857600\nactive_file 20971520\n");
    put(root, "sys/fs/cgroup/jobs/42/memory.max", "max\n");
    put(root, "sys/fs/cgroup/jobs/42/memory.high", "max\n");
    put(root, "sys/fs/cgroup/jobs/42/memory.current", "524288000\n");
    struct gf_headroom room = read_room(-1);
    assert_int_equal(room.cgroup, (24 + 100 + 10) * MIB);
    assert_int_equal(room.host, 2048 * MIB);
    assert_int_equal(room.bytes, room.cgroup);
    assert_int_equal(room.limit, 1024 * MIB);
    assert_true(room.node == UNKNOWN);
    assert_string_equal(gf_headroom_source(&room), "memory.max");

    /* Without memory.stat, 10 MiB are left. */
    put(root, "sys/fs/cgroup/jobs/42/memory.high", "534773760\n");
    room = read_room(-1);
    assert_int_equal(room.bytes, 10 * MIB);
    assert_string_equal(gf_headroom_source(&room), "memory.high");

    put(root, "sys/fs/cgroup/jobs/42/memory.current", "634773760\n"); /* above memory.high */
    assert_int_equal(read_room(-1).bytes, 0);
}

static void the_host_and_the_node(void **state)
{
    (void)state;
    put(root, "proc/self/cgroup", "0::/\n");
    put(root, "proc/meminfo", "MemTotal: 9000000 kB\nMemFree: 5 kB\nMemAvailable:  2097152 kB\n");
    put(root, "sys/devices/system/node/node1/meminfo",
        "Node 1 MemTotal:  8388608 kB\nNode 1 MemFree:  102400 kB\nNode 1 Active:  7 kB\n"
        "Node 1 Inactive: 8 kB\nNode 1 Active(anon): 9 kB\nNode 1 Inactive(anon): 9 kB\n"
        "Node 1 Active(file):  20480 kB\nNode 1 Inactive(file):  51200 kB\n");
    struct gf_headroom room = read_room(-1);
    assert_int_equal(room.bytes, 2048 * MIB);
    assert_string_equal(gf_headroom_source(&room), "MemAvailable");
    room = read_room(1);
    assert_int_equal(room.node, (100 + 50 + 10) * MIB);
    assert_int_equal(room.bytes, room.node);
    assert_string_equal(gf_headroom_source(&room), "node");
    assert_true(read_room(0).node == UNKNOWN);
}

static void version_one(void **state)
{
    (void)state;
    /*
     * Without a cgroup namespace the path is the host's, but the process's own group is mounted at
     * the top.
     */
    put(root, "proc/self/cgroup",
        "7:cpuset:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/\n0::/\n");
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "104857600\n");
    assert_true(read_room(-1).bytes == UNKNOWN);
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "209715200\n");
    put(root, "sys/fs/cgroup/memory/memory.stat",
        "inactive_file 99\nactive_file 99\ntotal_inactive_file "
        "10485760\ntotal_active_file 4194304\n");
    const struct gf_headroom room = read_room(-1);
    assert_int_equal(room.bytes, (100 + 10 + 2) * MIB);
    assert_string_equal(gf_headroom_source(&room), "memory.limit_in_bytes");
}

static struct gf_pressure read_pressure(void)
{
    struct gf_pressure pressure;
    gf_pressure_read(root, &pressure);
    return pressure;
}

static void no_pressure_is_unknown(void **state)
{
    (void)state;
    const struct gf_pressure pressure = read_pressure();
    assert_true(pressure.stalled_us == UNKNOWN && pressure.limited == UNKNOWN &&
                pressure.killed == UNKNOWN);
    assert_null(pressure.stalled_file);
    assert_null(pressure.limited_file);
}

static void pressure_of_groups_and_host(void **state)
{
    (void)state;
    put(root, "proc/self/cgroup", "0::/jobs/42\n");
    put(root, "proc/pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=99\n");
    put(root, "sys/fs/cgroup/jobs/42/memory.events", "low 9\nhigh 1\nmax 2\noom 3\noom_kill 4\n");
    put(root, "sys/fs/cgroup/jobs/memory.events", "low 9\nhigh 10\nmax 20\noom 0\noom_kill 1\n");
    struct gf_pressure pressure = read_pressure();
    assert_int_equal(pressure.stalled_us, 1234);
    assert_string_equal(pressure.stalled_file, "/proc/pressure/memory");
    assert_int_equal(pressure.limited, 33);
    assert_int_equal(pressure.killed, 8);
    assert_string_equal(pressure.limited_file, "memory.events");
    put(root, "sys/fs/cgroup/jobs/42/memory.pressure",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
    pressure = read_pressure();
    assert_int_equal(pressure.stalled_us, 5);
    assert_string_equal(pressure.stalled_file, "memory.pressure");
}

static void pressure_of_version_one(void **state)
{
    (void)state;
    put(root, "proc/self/cgroup", "4:memory:/a\n0::/\n");
    put(root, "sys/fs/cgroup/memory/a/memory.failcnt", "17\n");
    put(root, "sys/fs/cgroup/memory/a/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    const struct gf_pressure pressure = read_pressure();
    assert_int_equal(pressure.limited, 17);
    assert_int_equal(pressure.killed, 2);
    assert_string_equal(pressure.limited_file, "memory.failcnt");
    assert_true(pressure.stalled_us == UNKNOWN);
}

/* A sanitizer's frames are larger. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK ((size_t)1 << 20)
#else
#define STACK ((size_t)PTHREAD_STACK_MIN)
#endif

static void *read_here(void *ret)
{
    static struct gf_headroom_scratch scratch;
    gf_headroom_read_in(&scratch, "", -1, ret);
    return NULL;
}

/* Reads the headroom of this machine on the smallest stack that a thread can have. */
static void on_a_small_stack(void **state)
{
    (void)state;
    struct gf_headroom room = {0};
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstacksize(&attr, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attr, read_here, &room), 0);
    pthread_join(thread, NULL);
    assert_true(room.bytes > 0 && room.host != UNKNOWN && room.bytes <= room.host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_unknown, make_root, remove_root),
        cmocka_unit_test_setup_teardown(the_tightest_of_all_parents, make_root, remove_root),
        cmocka_unit_test_setup_teardown(the_host_and_the_node, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_one, make_root, remove_root),
        cmocka_unit_test(on_a_small_stack),
        cmocka_unit_test_setup_teardown(no_pressure_is_unknown, make_root, remove_root),
        cmocka_unit_test_setup_teardown(pressure_of_groups_and_host, make_root, remove_root),
        cmocka_unit_test_setup_teardown(pressure_of_version_one, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
