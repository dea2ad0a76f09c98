/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "tools/doctor/finding.h"

#include <string.h>
#include <unistd.h>

static struct gf_findings findings;

static void read_standard_error(int from, char *ret, size_t size)
{
    const ssize_t length = read(from, ret, size - 1);
    ret[length > 0 ? length : 0] = '\0';
}

/* If the list is full, a further finding is printed on standard error, and the list is unchanged. */
static void full_list(void **state)
{
    char text[4096];
    int ends[2];
    const int kept = dup(STDERR_FILENO);

    (void)state;
    for (size_t i = 0; i < GF_ARRAY_LEN(findings.list); i++)
        gf_ok(&findings, "finding %zu", i);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    gf_problem(&findings, "one too many");
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(ends[1]);
    read_standard_error(ends[0], text, sizeof(text));
    close(ends[0]);

    gf_evidence(&findings, "the caller may add to it");
    assert_non_null(strstr(text, "gpufeed: dropped a finding"));
    assert_non_null(strstr(text, "one too many\n"));
    assert_ptr_equal(strchr(text, '\n'), strrchr(text, '\n'));
    assert_int_equal(findings.count, GF_ARRAY_LEN(findings.list));
    assert_string_equal(findings.list[0].summary, "finding 0");
    assert_string_equal(findings.list[0].evidence, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(full_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
