/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "observe/python.h"
#include "observe/unwind.h"

#include <dlfcn.h>
#include <string.h>

static void *library;
static void (*fake_text)(unsigned width, size_t length, unsigned char byte);
static const char **fake_version;

static void start(void)
{
    library = dlopen(GF_TEST_FAKE_PYTHON, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    *(void **)&fake_text = dlsym(library, "fake_text");
    fake_version = dlsym(library, "fake_version");
    void (*fake_start)(void);
    *(void **)&fake_start = dlsym(library, "fake_start");
    fake_start();
    gf_unwind_open();
    gf_python_open();
}

static void stop(void)
{
    assert_int_equal(dlclose(library), 0);
    assert_null(dlopen(GF_TEST_FAKE_PYTHON, RTLD_NOW | RTLD_NOLOAD));
}

static void test_line(void **state)
{
    struct gf_python_frame frame[2];
    (void)state;
    start();
    assert_int_equal(gf_python_frames(frame, 2), 1);
    assert_string_equal(frame[0].file, "xxxxx");
    assert_string_equal(frame[0].function, "xxxxx");
    assert_int_equal(frame[0].line, 42);
    stop();
}

/* Versions and builds that were never tried have no lines. */
static void test_versions(void **state)
{
    static const char *const unknown[] = {"3.8.1 (", "3.14.0 (", "3.111.0 (", "4.11.0 (", "2.7.18 (", "",
                                          "3.11.0 experimental free-threading build ("};
    struct gf_python_frame frame[2];
    (void)state;
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        start();
        *fake_version = unknown[i];
        assert_int_equal(gf_python_frames(frame, 2), 0);
        stop();
    }
}

/* As torn or freed memory may look: what does not fit is never written. */
static void test_strange_texts(void **state)
{
    static const struct {
        unsigned width;
        size_t length;
        unsigned char byte;
    } texts[] = {{1, 400, 0xff}, {1, 300, 0xc3}, {2, 300, 'a'}, {4, 300, 0xff}, {0, 5, 'a'},
                 {3, 5, 'a'},        {1, (1 << 20) + 1, 0xff}, {1, SIZE_MAX, 0}};
    struct gf_python_frame frame[3];
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        start();
        fake_text(texts[i].width, texts[i].length, texts[i].byte);
        memset(frame, 0x55, sizeof(frame));
        assert_int_equal(gf_python_frames(frame, 1), 0);
        for (size_t k = sizeof(frame[0]); k < sizeof(frame); k++)
            assert_int_equal(((unsigned char *)frame)[k], 0x55);
        assert_int_equal((unsigned char)frame[0].function[0], 0x55);
        stop();
    }
    start();
    fake_text(1, 400, 'a'); /* a long name shows its end */
    assert_int_equal(gf_python_frames(frame, 1), 1);
    assert_int_equal(strlen(frame[0].file), sizeof(frame[0].file) - 1);
    stop();
}

/* A program that embeds an interpreter may unload it, and load it again. */
static void test_closed(void **state)
{
    struct gf_python_frame frame[2];
    (void)state;
    if (!gf_unwind_object((const void *)(uintptr_t)&test_closed))
        skip_because("this libc has no _dl_find_object");
    start();
    assert_int_equal(gf_python_frames(frame, 2), 1);
    stop();
    assert_int_equal(gf_python_frames(frame, 2), 0);
    start();
    assert_int_equal(gf_python_frames(frame, 2), 1);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_strange_texts),
        cmocka_unit_test(test_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
