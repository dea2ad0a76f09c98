/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/output_file.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void network_file_systems(void **state)
{
    (void)state;
    assert_true(gf_is_network_fs(NFS_SUPER_MAGIC));
    assert_true(gf_is_network_fs(0x0bd00bd0)); /* Lustre */
    /* f_type is signed, so a 32-bit magic number may be sign-extended. */
    assert_true(gf_is_network_fs((unsigned long)(long)(int)CIFS_SUPER_MAGIC));
    assert_false(gf_is_network_fs(EXT4_SUPER_MAGIC));
    assert_false(gf_is_network_fs(TMPFS_MAGIC));
    assert_false(gf_is_network_fs(OVERLAYFS_SUPER_MAGIC));
}

static void places(void **state)
{
    char folder[] = "/tmp/gpufeed-place-XXXXXX", path[64];
    struct gf_replaced seen, again;
    (void)state;

    assert_int_equal(gf_output_replace_seen("/dev/null", "x", 1, gf_output_private, &seen), 0);
    assert_int_equal(seen.place, gf_file_place_stream);
    assert_int_equal(seen.before.st_ino, 0);
    assert_int_equal(seen.after.st_ino, 0);
    assert_int_equal(gf_output_replace_seen("/nonexistent/file", "x", 1, gf_output_private, &seen),
                     -ENOENT);
    assert_int_equal(seen.place, gf_file_place_local);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/file", folder);
    assert_int_equal(gf_output_replace_seen(path, "x", 1, gf_output_private, &seen), 0);
    assert_int_equal(seen.place, gf_file_place_local);
    assert_int_equal(seen.before.st_ino, 0);
    assert_int_equal(gf_output_replace_seen(path, "yz", 2, gf_output_private, &again), 0);
    assert_int_equal(again.before.st_ino, seen.after.st_ino);
    assert_int_equal(again.after.st_size, 2);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(network_file_systems),
        cmocka_unit_test(places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
