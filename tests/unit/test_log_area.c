/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Returns the text that write_lines writes to standard error. */
static const char *captured(void (*write_lines)(void))
{
    static char text[4096];
    int ends[2];
    const int kept = dup(STDERR_FILENO);
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    dup2(ends[1], STDERR_FILENO);
    write_lines();
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(ends[1]);
    const ssize_t length = read(ends[0], text, sizeof(text) - 1);
    text[length > 0 ? length : 0] = '\0';
    close(ends[0]);
    return text;
}

static void two_areas(void)
{
    errno = 5;
    gf_log_explain(gf_log_area_copy, "%d bytes", 7);
    gf_log_explain(gf_log_area_place, "node %d", 1);
    assert_int_equal(errno, 5);
}

static void each_level(void)
{
    gf_warn("warned");
    gf_info("informed");
    gf_debug("debugged");
}

static void test_levels(void **state)
{
    (void)state;
    gf_log_set_level(GF_LOG_SILENT);
    assert_string_equal(captured(each_level), "");
    gf_log_set_level(GF_LOG_INFO);
    assert_string_equal(captured(each_level), "gpufeed: warned\ngpufeed: informed\n");
}

static void test_areas_do_not_depend_on_the_level(void **state)
{
    (void)state;
    gf_log_set_level(GF_LOG_DEBUG);
    assert_string_equal(captured(two_areas), "");
    gf_log_set_level(GF_LOG_WARN);
    gf_log_set_areas(1u << gf_log_area_place);
    assert_string_equal(captured(two_areas), "gpufeed: place: node 1\n");
    gf_log_set_areas(1u << gf_log_area_place | 1u << gf_log_area_copy);
    assert_string_equal(captured(two_areas), "gpufeed: copy: 7 bytes\ngpufeed: place: node 1\n");
    gf_log_set_level(GF_LOG_SILENT);
    assert_string_equal(captured(two_areas), "");
}

static void long_line(void)
{
    static char text[2000];
    memset(text, 'x', sizeof(text) - 1);
    gf_log_explain(gf_log_area_copy, "%s", text);
}

static void test_a_line_is_cut(void **state)
{
    (void)state;
    gf_log_set_level(GF_LOG_WARN);
    gf_log_set_areas(1u << gf_log_area_copy);
    const char *line = captured(long_line);
    assert_true(strlen(line) <= 1024 && strlen(line) > 1000);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    assert_int_equal(strncmp(line, "gpufeed: copy: xxx", 18), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_areas_do_not_depend_on_the_level),
        cmocka_unit_test(test_a_line_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
