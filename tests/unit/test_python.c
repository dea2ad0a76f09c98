/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "preload/trace/python.h"
#include "preload/trace/unwind.h"

#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

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
    struct gf_pystack_frame frame[2];
    (void)state;
    start();
    assert_int_equal(gf_python_frames(frame, 2), 1);
    assert_string_equal(frame[0].file, "xxxxx");
    assert_string_equal(frame[0].function, "xxxxx");
    assert_int_equal(frame[0].line, 42);
    stop();
}

static void test_tagged_code(void **state)
{
    struct gf_pystack_frame frame[3];
    void (*fake_start_3_14)(void);
    (void)state;
    start();
    *(void **)&fake_start_3_14 = dlsym(library, "fake_start_3_14");
    fake_start_3_14();
    assert_int_equal(gf_python_frames(frame, 3), 1);
    assert_string_equal(frame[0].file, "xxxxx");
    assert_string_equal(frame[0].function, "xxxxx");
    assert_int_equal(frame[0].line, 42);
    stop();
}

/* Python lines are not read from versions and builds that were never tested. */
static void test_versions(void **state)
{
    static const char *const unknown[] = {"3.8.1 (",
                                          "3.16.0 (",
                                          "3.111.0 (",
                                          "4.11.0 (",
                                          "2.7.18 (",
                                          "",
                                          "3.11.0 experimental free-threading build ("};
    struct gf_pystack_frame frame[2];
    (void)state;
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        start();
        *fake_version = unknown[i];
        assert_int_equal(gf_python_frames(frame, 2), 0);
        stop();
    }
}

/* Reads damaged objects, like those in freed memory. Nothing is written beyond the buffer. */
static void test_strange_texts(void **state)
{
    static const struct {
        unsigned width;
        size_t length;
        unsigned char byte;
    } texts[] = {{1, 400, 0xff},           {1, 300, 0xc3},  {2, 300, 'a'},
                 {4, 300, 0xff},           {0, 5, 'a'},     {3, 5, 'a'},
                 {1, (1 << 20) + 1, 0xff}, {1, SIZE_MAX, 0}};
    struct gf_pystack_frame frame[3];
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
    fake_text(1, 400, 'a'); /* of a long name, the end is kept */
    assert_int_equal(gf_python_frames(frame, 1), 1);
    assert_int_equal(strlen(frame[0].file), sizeof(frame[0].file) - 1);
    stop();
}

/* A program that embeds an interpreter may unload it, and load it again. */
static void test_closed(void **state)
{
    struct gf_pystack_frame frame[2];
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

static size_t read_child(void *closure, uintptr_t address, void *ret, size_t size)
{
    const struct iovec local = {ret, size}, remote = {(void *)address, size};
    const ssize_t got = process_vm_readv(*(const pid_t *)closure, &local, 1, &remote, 1, 0);
    return got < 0 ? 0 : (size_t)got;
}

/* Reads the frames of another process, which differ from this process's frames. */
static void test_another_process(void **state)
{
    struct gf_pystack_frame frame[2];
    void *(*thread_state)(void);
    int pipe_fds[2];
    char ready;

    (void)state;
    start();
    *(void **)&thread_state = dlsym(library, "PyGILState_GetThisThreadState");
    assert_int_equal(pipe(pipe_fds), 0);
    const pid_t child = fork();
    if (child == 0) {
        fake_text(1, 7, 'y');
        _exit(write(pipe_fds[1], "", 1) == 1 ? pause() : 1);
    }
    assert_int_equal(read(pipe_fds[0], &ready, 1), 1);
    const struct gf_pystack_memory memory = {read_child, (void *)(uintptr_t)&child};
    const struct gf_pystack reader = {gf_pystack_layout(*fake_version), &memory};
    const char *probe;
    const bool readable = read_child((void *)(uintptr_t)&child, (uintptr_t)fake_version, &probe,
                                     sizeof(probe)) == sizeof(probe);
    const size_t count = gf_pystack_frames(&reader, (uintptr_t)thread_state(), frame, 2, NULL);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    if (!readable)
        skip_because("process_vm_readv is refused here");
    assert_int_equal(count, 1);
    assert_string_equal(frame[0].file, "yyyyyyy");
    assert_int_equal(frame[0].line, 42);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),     cmocka_unit_test(test_tagged_code),
        cmocka_unit_test(test_versions), cmocka_unit_test(test_strange_texts),
        cmocka_unit_test(test_closed),   cmocka_unit_test(test_another_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
