/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/output_file.h"
#include "os/files.h"

#include <errno.h>
#include <linux/magic.h>

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
    (void)state;
    errno = 77;
    assert_int_equal(gf_file_place_of("/dev/null"), gf_file_place_stream);
    assert_int_equal(gf_file_place_of("/nonexistent/file"), gf_file_place_unknown);
    assert_int_equal(gf_file_place_of("/proc/self/maps"), gf_file_place_local);
    assert_int_equal(errno, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(network_file_systems),
        cmocka_unit_test(places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
