/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "os/procfs.h"

#include <stdio.h>
#include <stdlib.h>

static void say(const char *folder, const char *file, const char *line)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/sys/kernel/mm/transparent_hugepage/%s", folder, file);
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    fputs(line, to);
    fclose(to);
}

static bool are_told(const char *root)
{
    struct gf_thp thp;
    gf_thp_read_shared(root, &thp);
    return thp.on;
}

static void shared_huge_pages_are_told(void **state)
{
    static const char general[] = "shmem_enabled", size[] = "hugepages-2048kB/shmem_enabled";
    char root[] = "/tmp/gpufeed-thp-XXXXXX", command[256];
    (void)state;
    assert_non_null(mkdtemp(root));
    assert_false(are_told(root));
    snprintf(command, sizeof(command),
             "mkdir -p %s/sys/kernel/mm/transparent_hugepage/hugepages-2048kB", root);
    assert_int_equal(system(command), 0);
    say(root, general, "always within_size advise [never] deny force\n");
    assert_false(are_told(root));
    say(root, general, "always within_size [advise] never deny force\n");
    assert_true(are_told(root));
    say(root, size, "always [inherit] within_size advise never\n");
    assert_true(are_told(root));
    say(root, general, "always within_size advise never [deny] force\n");
    assert_false(are_told(root));
    say(root, size, "[always] inherit within_size advise never\n");
    assert_false(are_told(root)); /* as shmem_allowable_huge_orders of Linux 6.18 */
    say(root, general, "always within_size advise [never] deny force\n");
    assert_true(are_told(root));
    say(root, general, "always within_size [advise] never deny force\n");
    say(root, size, "always inherit within_size advise [never]\n");
    assert_false(are_told(root));
    snprintf(command, sizeof(command), "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_huge_pages_are_told),
    };
    return cmocka_run_group_tests_name("thp", tests, NULL, NULL);
}
