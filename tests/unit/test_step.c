/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of steps: when a mark ends a step, which time counts, and what the log contains. */
#include "unit.h"

#include "base/fmt.h"
#include "preload/trace/journal.h"
#include "preload/trace/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/gpufeed-test-XXXXXX";

/* Replaces the heap's function, which is not linked here. */
uint64_t gf_slowpath_threshold(void)
{
    return 1000000;
}

static struct gf_step_count count(void)
{
    struct gf_step_count ret;
    gf_step_count(&ret);
    return ret;
}

/* One case, because the marks of a process cannot be undone. */
static void test_marks(void **state)
{
    (void)state;
    gf_step_mark(0);
    assert_int_equal(count().ended, 0);
    assert_int_equal(count().us, 0);

    gf_step_mark(7);
    gf_step_mark(7); /* a repeated number changes nothing */
    assert_int_equal(gf_step_current(), 7);
    assert_int_equal(count().ended, 0);
    assert_int_equal(count().us, 0);

    usleep(3000);
    gf_step_mark(8);
    assert_int_equal(count().ended, 1);
    const uint64_t one = count().us;
    assert_true(one >= 3000);

    usleep(2000);
    gf_step_mark(0);
    assert_int_equal(gf_step_current(), 0);
    assert_int_equal(count().ended, 2);
    const uint64_t two = count().us;
    assert_true(two >= one + 2000);

    usleep(2000);
    gf_step_mark(0);
    assert_int_equal(count().ended, 2);
    assert_int_equal(count().us, two); /* the time after the last step does not count */

    gf_step_mark(9);
    assert_int_equal(count().ended, 2);
    assert_int_equal(count().current, 9);
    assert_true(count().us >= two + 2000);
}

/* Returns the n-th line with marks of a process's log, or "" if there are fewer. */
static char *line_of(pid_t pid, unsigned n)
{
    static char line[16384];
    char path[64];

    gf_fmt(path, sizeof(path), "%s/%d.log", folder, pid);
    FILE *file = fopen(path, "r");
    bool found = false;
    while (file && !found && fgets(line, sizeof(line), file))
        found = strncmp(line, "{\"event\":\"steps\"", 16) == 0 && n-- == 0;
    if (file)
        fclose(file);
    if (!found)
        *line = '\0';
    return line;
}

/* Checks the numbers of a line's marks, and returns the time of the last one after the first. */
static uint64_t check_line(char *line, uint64_t first, uint64_t count)
{
    char *steps = strstr(line, "\"steps\":["), *times = strstr(line, "\"after_us\":["), *at;
    uint64_t us = 0;

    assert_non_null(steps);
    assert_non_null(times);
    at = steps + strlen("\"steps\":[") - 1;
    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(strtoull(at + 1, &at, 10), first + i);
    assert_int_equal(*at, ']');
    at = times + strlen("\"after_us\":[") - 1;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t now = strtoull(at + 1, &at, 10);
        assert_true(i ? now >= us : now == 0);
        us = now;
    }
    assert_int_equal(*at, ']');
    return us;
}

#define MS UINT64_C(1000000)

static void add_marks(uint64_t first, uint64_t count, uint64_t ns, uint64_t each_ns)
{
    for (uint64_t i = 0; i < count; i++)
        gf_step_log_add(first + i, ns + i * each_ns);
}

/*
 * The test invents the times. The log writes a line for 64 marks; further marks wait for the next
 * line or for the end.
 */
static void test_log(void **state)
{
    static char pattern[64];
    static char *environment[] = {NULL};

    (void)state;
    assert_non_null(mkdtemp(folder));
    gf_fmt(pattern, sizeof(pattern), "%s/%%p.log", folder);
    add_marks(1, 64, 1000 * MS, MS); /* ignored: there is no log */
    gf_journal_open(pattern, environment, "1");
    add_marks(1, 64, 1000 * MS, MS); /* ignored: the process has no GPU */
    gf_step_log_flush();
    assert_string_equal(line_of(getpid(), 0), "");

    gf_journal_share();
    add_marks(1, 63, 2000 * MS, MS);
    assert_string_equal(line_of(getpid(), 0), "");
    add_marks(64, 1, 2063 * MS, 0);
    assert_int_equal(check_line(line_of(getpid(), 0), 1, 64), 63000);
    assert_non_null(strstr(line_of(getpid(), 0), "\"start\":2.000000,"));
    assert_null(strstr(line_of(getpid(), 0), "skipped"));

    add_marks(65, 100, 2064 * MS, MS); /* these come too soon after the first line */
    const pid_t child = fork();
    if (child == 0) { /* the child's log must not contain its parent's marks */
        add_marks(7, 2, 2200 * MS, 50 * MS);
        gf_step_log_flush();
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(check_line(line_of(child, 0), 7, 2), 50000);
    add_marks(165, 1, 2313 * MS, 0);
    check_line(line_of(getpid(), 1), 65, 64);
    assert_non_null(strstr(line_of(getpid(), 1), "\"skipped\":37"));

    add_marks(200, 2, 3000 * MS, 999 * MS);
    assert_string_equal(line_of(getpid(), 2), "");
    add_marks(202, 1, 4000 * MS, 0); /* a line is also written if its first mark is old */
    assert_int_equal(check_line(line_of(getpid(), 2), 200, 3), 1000000);

    gf_step_mark(300);
    gf_step_log_flush();
    check_line(line_of(getpid(), 3), 300, 1);
    gf_step_log_flush();
    assert_string_equal(line_of(getpid(), 4), "");
}

static int remove_folder(void **state)
{
    char command[64];

    (void)state;
    gf_fmt(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_marks), cmocka_unit_test(test_log)};
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
