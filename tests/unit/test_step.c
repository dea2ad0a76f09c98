/* SPDX-License-Identifier: Apache-2.0 */
/* The program's marks of its steps: which of them end a step, and which time counts. */
#include "preload/trace/step.h"
#include "unit.h"

#include <unistd.h>

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
    gf_step_mark(7); /* the number of the current step changes nothing */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_marks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
