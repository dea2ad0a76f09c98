/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that waited for their stream, and the lines of Python that made them. */
#include "unit.h"

#include "base/fmt.h"
#include "preload/trace/copy_waits.h"
#include "preload/trace/python.h"

#include <string.h>
#include <time.h>

#define MS UINT64_C(1000000)
#define MIB (UINT64_C(1) << 20)

static struct gf_pystack_frame frames[3];
static size_t frame_count;
static unsigned readings;

size_t __wrap_gf_python_frames(struct gf_pystack_frame *ret, size_t cap);

size_t __wrap_gf_python_frames(struct gf_pystack_frame *ret, size_t cap)
{
    const size_t count = gf_min(cap, frame_count);
    readings++;
    memcpy(ret, frames, count * sizeof(*ret));
    return count;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

/* Reading a line takes 10 us on every machine. Of more expensive readings, fewer are made. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    static uint64_t now;

    (void)clock;
    now += 10000;
    *ret = (struct timespec){(time_t)(now / 1000000000), (long)(now % 1000000000)};
    return 0;
}

static void set_frame(size_t i, const char *file, int line, const char *function)
{
    gf_fmt(frames[i].file, sizeof(frames[i].file), "%s", file);
    gf_fmt(frames[i].function, sizeof(frames[i].function), "%s", function);
    frames[i].line = line;
    frame_count = i + 1;
}

/* Counts from here on, because the table is never cleared. */
static struct gf_copy_waits before;

static int begin(void **state)
{
    (void)state;
    gf_copy_waits_start(MS / 5);
    gf_copy_waits_forget();
    gf_copy_waits_read(&before);
    frame_count = 0;
    readings = 0;
    return 0;
}

static struct gf_copy_wait_sum to_device(void)
{
    struct gf_copy_waits now;
    gf_copy_waits_read(&now);
    return (struct gf_copy_wait_sum){now.to_device.copies - before.to_device.copies,
                                     now.to_device.bytes - before.to_device.bytes,
                                     now.to_device.ns - before.to_device.ns};
}

static struct gf_copy_wait_line line_of(int line)
{
    struct gf_copy_waits now;
    gf_copy_waits_read(&now);
    for (unsigned i = 0; i < now.lines; i++)
        if (now.line[i].at.line == line)
            return now.line[i];
    return (struct gf_copy_wait_line){0};
}

static void long_waits_have_lines(void **state)
{
    (void)state;
    set_frame(0, "/usr/lib/python3/dist-packages/torch/_tensor.py", 7, "to");
    set_frame(1, "/home/user/train.py", 12, "step");
    gf_copy_waits_add(true, MIB, 50 * MS);
    gf_copy_waits_add(true, MIB, 60 * MS);
    gf_copy_waits_add(false, 2 * MIB, 70 * MS);
    const struct gf_copy_wait_sum sum = to_device();
    assert_int_equal(sum.copies, 2);
    assert_int_equal(sum.bytes, 2 * MIB);
    assert_int_equal(sum.ns, 110 * MS);
    struct gf_copy_wait_line line = line_of(12);
    assert_string_equal(line.at.file, "/home/user/train.py");
    assert_string_equal(line.at.function, "step");
    assert_true(line.to_device);
    assert_int_equal(line.sum.copies, 2);
    assert_int_equal(line.sum.ns, 110 * MS);
    set_frame(0, "/usr/lib/python3/queue.py", 9, "get"); /* no frame of the program's own code */
    gf_copy_waits_add(true, MIB, 50 * MS);
    line = line_of(9);
    assert_string_equal(line.at.function, "get");
}

static void short_waits_are_ignored(void **state)
{
    (void)state;
    set_frame(0, "/home/user/train.py", 20, "step");
    gf_copy_waits_add(true, MIB, MS / 5 - 1);
    assert_int_equal(to_device().copies, 0);
    gf_copy_waits_start(0);
    assert_false(gf_copy_waits_wanted());
    gf_copy_waits_add(true, MIB, 50 * MS);
    assert_int_equal(to_device().copies, 0);
    assert_int_equal(readings, 0);
    assert_int_equal(line_of(20).at.line, 0);
}

/* Of short waits, a part is read and stands for the others. */
static void many_waits_are_estimated(void **state)
{
    enum { COPIES = 20000 };
    (void)state;
    set_frame(0, "/home/user/train.py", 30, "step");
    for (unsigned i = 0; i < COPIES; i++)
        gf_copy_waits_add(true, MIB, MS / 4);
    assert_int_equal(to_device().copies, COPIES);
    assert_int_equal(to_device().ns, COPIES * (MS / 4));
    const struct gf_copy_wait_line line = line_of(30);
    assert_in_range(readings, COPIES / 8, COPIES * 3 / 4); /* 2.5 of at least 5 us */
    assert_in_range(line.sum.copies, COPIES * 9 / 10, COPIES * 11 / 10);
    assert_in_range(line.sum.ns, COPIES * (MS / 4) / 10 * 9, COPIES * (MS / 4) / 10 * 11);
}

static void a_wait_belongs_to_the_copy_before_it(void **state)
{
    static const struct {
        uintptr_t copied, awaited;
        uint64_t submitted, submitted_then;
        unsigned counted;
    } rows[] = {{1, 1, 5, 5, 1}, {1, 2, 5, 5, 0}, {1, 1, 5, 6, 0}, {1, 1, 0, 0, 0}};
    (void)state;
    for (size_t i = 0; i < GF_ARRAY_LEN(rows); i++) {
        gf_copy_waits_read(&before);
        gf_copy_waits_queued(rows[i].copied, MIB, rows[i].submitted);
        gf_copy_waits_expect(rows[i].awaited, rows[i].submitted_then);
        gf_copy_waits_waited(5 * MS);
        gf_copy_waits_forget();
        assert_int_equal(to_device().copies, rows[i].counted);
        assert_int_equal(to_device().ns, rows[i].counted * (5 * MS - MIB / 8));
        gf_copy_waits_waited(5 * MS); /* a wait for an event */
        gf_copy_waits_expect(rows[i].awaited, rows[i].submitted_then);
        gf_copy_waits_waited(5 * MS); /* the copy has ended */
        gf_copy_waits_forget();
        assert_int_equal(to_device().copies, rows[i].counted);
    }
}

static void the_table_is_full(void **state)
{
    struct gf_copy_waits now;
    (void)state;
    for (int i = 0; i < 40; i++) {
        set_frame(0, "/home/user/train.py", 100 + i, "step");
        gf_copy_waits_add(true, MIB, 50 * MS);
    }
    gf_copy_waits_read(&now);
    assert_int_equal(now.lines, GF_COPY_WAIT_LINES);
    assert_int_equal(to_device().copies, 40);
    assert_int_equal(line_of(139).at.line, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(long_waits_have_lines, begin),
        cmocka_unit_test_setup(short_waits_are_ignored, begin),
        cmocka_unit_test_setup(many_waits_are_estimated, begin),
        cmocka_unit_test_setup(a_wait_belongs_to_the_copy_before_it, begin),
        cmocka_unit_test_setup(the_table_is_full, begin),
    };
    return cmocka_run_group_tests_name("copy_waits", tests, NULL, NULL);
}
