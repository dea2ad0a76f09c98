/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/base.h"
#include "preload/heap/jemalloc_conf.h"

#include <math.h>
#include <string.h>

static void close_to(double mine, double theirs)
{
    if (theirs != 0 && !isinf(theirs))
        assert_true(fabs(mine - theirs) <= fabs(theirs) * 1e-14 + 1e-16);
    else
        assert_true(mine == theirs);
}

static void agrees_with_libm(void **state)
{
    (void)state;
    for (double x = 1e-300; x < 1e300; x *= 1.37)
        close_to(gf_heap_log(x), log(x));
    for (double x = -700; x < 709; x += 0.173)
        close_to(gf_heap_exp(x), exp(x));
    for (double x = 1.0 / 1048576; x <= 1; x += 1.0 / 4099)
        close_to(gf_heap_log(x), log(x));
}

static void edges(void **state)
{
    (void)state;
    static const double numbers[] = {0,    0.5,   -0.5, 1.5, 2.5, -2.5, 0.49999999999999994,
                                     1e18, -1e300};
    for (size_t i = 0; i < GF_ARRAY_LEN(numbers); i++)
        assert_true(gf_heap_round(numbers[i]) == round(numbers[i]));
    assert_true(gf_heap_log(0) == -INFINITY);
    assert_true(isnan(gf_heap_log(-1)));
    assert_true(gf_heap_exp(0) == 1);
    assert_true(gf_heap_exp(1000) == INFINITY);
    assert_true(gf_heap_exp(-1000) == 0);
    assert_true(isnan(gf_heap_exp(NAN)));
}

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *context, void *closure)
{
    int *frames = closure;
    if (gf_heap_unwind_ip(context))
        ++*frames;
    return _URC_NO_REASON;
}

static void takes_backtraces(void **state)
{
    (void)state;
    int frames = 0;
    assert_int_equal(gf_heap_unwind(count_frame, &frames), _URC_END_OF_STACK);
    assert_int_equal(frames, 0);
    gf_profile_start();
    assert_int_equal(gf_heap_unwind(count_frame, &frames), _URC_END_OF_STACK);
    assert_true(frames > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_libm),
        cmocka_unit_test(edges),
        cmocka_unit_test(takes_backtraces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
