/* SPDX-License-Identifier: Apache-2.0 */
#include "temp_root.h"

#include "engine/transfer/files/readahead.h"
#include "engine/transfer/files/mapped_file.h"
#include "engine/transfer/stats.h"
#include "engine/transfer/tuning.h"

#define MIB ((uint64_t)1 << 20)
#define DISK 259
#define NO_DISK 0

static unsigned look_ups;

static bool is_disk(unsigned major, unsigned minor)
{
    look_ups++;
    return major == DISK && minor == 7;
}

static enum gf_mapped_file_answer begin(uint64_t inode, uint64_t start, uint64_t end,
                                        struct gf_range *ret)
{
    const struct gf_mapped_file_id id = {inode, DISK, 7};
    const struct gf_range copy = {start * MIB, end * MIB};
    return gf_mapped_file_begin(&id, &copy, ret);
}

/*
 * Simulates a copy at whose end all permitted bytes have been read ahead. Returns the MiB that were
 * read behind the copy.
 */
static uint64_t copy(uint64_t inode, uint64_t start, uint64_t end)
{
    const struct gf_mapped_file_id id = {inode, DISK, 7};
    const struct gf_range range = {start * MIB, end * MIB};
    struct gf_range ahead;
    assert_int_equal(gf_mapped_file_begin(&id, &range, &ahead), gf_mapped_file_yes);
    gf_mapped_file_end(&id, &range, &ahead, ahead.end > ahead.start ? ahead.end : 0, false);
    return ahead.end > gf_max(ahead.start, range.end) ? (ahead.end - range.end) / MIB : 0;
}

static struct gf_readahead_count counted(void)
{
    struct gf_copy_stats stats;
    gf_copy_stats_read(&stats);
    return stats.readahead;
}

static void a_file_system_is_looked_up_once(void **state)
{
    struct gf_range ahead;
    const struct gf_mapped_file_id shm = {1, NO_DISK, 26};
    const struct gf_range range = {0, MIB};
    (void)state;
    assert_int_equal(begin(1, 0, 1, &ahead), gf_mapped_file_unknown);
    assert_int_equal(begin(1, 1, 2, &ahead), gf_mapped_file_no); /* file system still unknown */
    assert_int_equal(gf_mapped_file_begin(&shm, &range, &ahead), gf_mapped_file_unknown);
    gf_mapped_files_look_up(is_disk);
    assert_int_equal(look_ups, 2);
    gf_mapped_files_look_up(is_disk);
    assert_int_equal(look_ups, 2);
    assert_int_equal(begin(2, 0, 1, &ahead), gf_mapped_file_yes);
    assert_int_equal(gf_mapped_file_begin(&shm, &range, &ahead), gf_mapped_file_no);
}

static void the_window_is_what_was_read(void **state)
{
    (void)state;
    assert_int_equal(copy(10, 0, 4), 0); /* the file's first copy has no window */
    assert_int_equal(copy(10, 4, 8), 4);
    assert_int_equal(copy(10, 8, 40), 8);
    assert_int_equal(copy(10, 40, 120), 40);
    assert_int_equal(copy(10, 120, 200), 64); /* at most GF_TUNE_READAHEAD_UNREAD */
    assert_int_equal(copy(10, 200, 208), 64);
}

static void bytes_ahead_are_used_once(void **state)
{
    struct gf_range ahead;
    (void)state;
    copy(20, 0, 32);
    copy(20, 32, 64); /* reads 64 to 96 MiB ahead */
    const struct gf_readahead_count before = counted();
    assert_int_equal(begin(20, 64, 80, &ahead), gf_mapped_file_yes);
    assert_int_equal(ahead.start, 96 * MIB);
    assert_int_equal(ahead.end, (80 + 64) * MIB);
    assert_int_equal(counted().used - before.used, 16 * MIB);
    const struct gf_mapped_file_id id = {20, DISK, 7};
    const struct gf_range range = {64 * MIB, 80 * MIB};
    gf_mapped_file_end(&id, &range, &ahead, 0, false); /* nothing was read */
    copy(20, 80, 90);
    assert_int_equal(counted().used - before.used, 26 * MIB);
    assert_int_equal(counted().ahead - before.ahead, (90 + 64 - 96) * MIB);
}

/*
 * If a program reads at random positions, the library reads at most 64 MiB, or a twentieth of the
 * program's bytes, in vain.
 */
static void what_is_not_read_is_limited(void **state)
{
    const struct gf_readahead_count before = counted();
    uint64_t most = 0;
    (void)state;
    for (uint64_t i = 0; i < 2000; i++) {
        const uint64_t at = (i / 2 * 7919) % 1000 * 1000 + i % 2 * 8;
        copy(30, at, at + 8);
        const struct gf_readahead_count now = counted();
        const uint64_t unread = (now.ahead - before.ahead) - (now.used - before.used);
        most = gf_max(most, unread);
        assert_true(unread <= gf_max(64 * MIB, (i + 1) * 8 * MIB / 20));
    }
    assert_true(most > 64 * MIB);
}

static void copies_at_several_places(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 4; i++)
        copy(40, 1000 * i, 1000 * i + 4);
    const struct gf_readahead_count before = counted();
    for (uint64_t k = 1; k < 20; k++)
        for (uint64_t i = 0; i < 4; i++)
            copy(40, 1000 * i + 4 * k, 1000 * i + 4 * k + 4);
    const struct gf_readahead_count now = counted();
    assert_true(now.used - before.used >= UINT64_C(4) * 17 * 4 * MIB);
}

/* The window of a copy that has not ended also reduces the windows of other copies. */
static void windows_under_way_are_reserved(void **state)
{
    struct gf_range first, second;
    (void)state;
    copy(50, 0, 100);
    copy(50, 2000, 2010);
    assert_int_equal(begin(50, 100, 110, &first), gf_mapped_file_yes);
    assert_int_equal(first.end, 174 * MIB);
    assert_int_equal(begin(50, 2010, 2020, &second), gf_mapped_file_yes);
    assert_int_equal(second.end, 2020 * MIB);
    const struct gf_mapped_file_id id = {50, DISK, 7};
    const struct gf_range range = {100 * MIB, 110 * MIB}, other = {2010 * MIB, 2020 * MIB};
    gf_mapped_file_end(&id, &range, &first, 0, false);
    gf_mapped_file_end(&id, &other, &second, 0, false);
    assert_int_equal(copy(50, 2020, 2030), 64);
}

/* A copy elsewhere in the file has no window, because the program may read in random order. */
static void a_copy_elsewhere_has_no_window(void **state)
{
    (void)state;
    copy(60, 0, 50);
    assert_int_equal(copy(60, 50, 60), 50);
    assert_int_equal(copy(60, 70, 80), 0);
    assert_int_equal(copy(60, 40, 48), 0);
    assert_true(copy(60, 81, 90) > 0); /* a gap of 1 MiB still counts as sequential */
}

/*
 * If a file is in the page cache, the library checks it again only after 8, 16, 32 and 64 MiB of
 * copies.
 */
static void a_cached_file_is_left_alone(void **state)
{
    const struct gf_mapped_file_id id = {70, DISK, 7};
    struct gf_range ahead;
    unsigned looked_at = 0;
    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        const struct gf_range range = {i * MIB, (i + 1) * MIB};
        if (gf_mapped_file_begin(&id, &range, &ahead) != gf_mapped_file_yes)
            continue;
        looked_at++;
        gf_mapped_file_end(&id, &range, &ahead, 0, true);
    }
    assert_int_equal(looked_at, 6);
    for (uint64_t i = 200; i < 300; i++) {
        const struct gf_range range = {i * MIB, (i + 1) * MIB};
        if (gf_mapped_file_begin(&id, &range, &ahead) == gf_mapped_file_yes)
            gf_mapped_file_end(&id, &range, &ahead, ahead.end, false);
    }
    assert_int_equal(gf_mapped_file_begin(&id, &(struct gf_range){300 * MIB, 301 * MIB}, &ahead),
                     gf_mapped_file_yes);
}

#define MOUNTS                                                                                     \
    "22 1 0:20 / /proc rw,nosuid - proc proc rw\n"                                                 \
    "23 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n"                                    \
    "24 23 259:11 / /data rw - xfs /dev/nvme1n1 rw\n"                                              \
    "25 23 0:51 / /home rw master:3 - nfs4 host:/home rw\n"                                        \
    "26 23 0:5 / /merged rw - overlay overlay rw,lowerdir=/a:/b\n"                                 \
    "27 23 0:52 / /bucket rw - fuse.s3fs s3fs rw\n"                                                \
    "28 23 0:53 / /odd rw - ext4x none rw\n"

static bool allows(unsigned major, unsigned minor)
{
    return gf_file_system_allows_readahead(root, major, minor);
}

static void only_disks_are_read_ahead(void **state)
{
    (void)state;
    assert_false(allows(259, 1)); /* no bytes can be read */
    put(root, "proc/self/mountinfo", MOUNTS);
    assert_true(allows(259, 1));
    assert_true(allows(259, 11));
    assert_true(allows(0, 5));
    assert_false(allows(0, 20));
    assert_false(allows(0, 51));
    assert_false(allows(0, 52));
    assert_false(allows(0, 53));
    assert_false(allows(0, 1)); /* a memfd, whose device number no mount has */
    assert_false(allows(59, 1));
}

static void limits_forbid_it(void **state)
{
    (void)state;
    put(root, "proc/self/mountinfo", MOUNTS);
    put(root, "proc/self/cgroup", "0::/jobs/42\n");
    put(root, "sys/fs/cgroup/jobs/42/memory.high", "max\n");
    put(root, "sys/fs/cgroup/jobs/42/io.max", "\n");
    assert_true(allows(259, 1));
    put(root, "sys/fs/cgroup/jobs/memory.high", "1073741824\n");
    assert_false(allows(259, 1));
    put(root, "sys/fs/cgroup/jobs/memory.high", "max\n");
    assert_true(allows(259, 1));
    put(root, "sys/fs/cgroup/jobs/42/io.max", "259:0 rbps=1000000 wbps=max riops=max wiops=max\n");
    assert_false(allows(259, 1));
    put(root, "sys/fs/cgroup/jobs/42/io.max", "\n");
    put(root, "proc/self/cgroup", "5:blkio:/old\n");
    put(root, "sys/fs/cgroup/blkio/old/blkio.throttle.read_bps_device", "8:0 1000\n");
    assert_false(allows(259, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_system_is_looked_up_once),
        cmocka_unit_test(the_window_is_what_was_read),
        cmocka_unit_test(bytes_ahead_are_used_once),
        cmocka_unit_test(what_is_not_read_is_limited),
        cmocka_unit_test(copies_at_several_places),
        cmocka_unit_test(windows_under_way_are_reserved),
        cmocka_unit_test(a_copy_elsewhere_has_no_window),
        cmocka_unit_test(a_cached_file_is_left_alone),
        cmocka_unit_test_setup_teardown(only_disks_are_read_ahead, make_root, remove_root),
        cmocka_unit_test_setup_teardown(limits_forbid_it, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
