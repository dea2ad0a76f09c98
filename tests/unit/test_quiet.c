/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/quiet.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static volatile sig_atomic_t caught;

static void catch(int signal)
{
    caught = signal;
}

static void limit_file(rlim_t size)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = size;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_writes(void **state)
{
    int ends[2];
    char got[8];
    const struct iovec parts[] = {{(char *)"ab", 2}, {(char *)"cd", 2}};
    (void)state;
    assert_int_equal(pipe(ends), 0);
    errno = 77;
    assert_int_equal(gf_quiet_writev(ends[1], parts, 2), 4);
    assert_int_equal(gf_quiet_write(ends[1], "e", 1), 1);
    assert_int_equal(errno, 77);
    assert_int_equal(read(ends[0], got, sizeof(got)), 5);
    assert_memory_equal(got, "abcde", 5);
    assert_int_equal(gf_quiet_write(-1, "e", 1), -1);
    assert_int_equal(errno, EBADF);
    close(ends[0]);
    close(ends[1]);
}

static void test_pipe_without_reader(void **state)
{
    int ends[2];
    sigset_t blocked, pending;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    signal(SIGPIPE, catch);
    assert_int_equal(gf_quiet_write(ends[1], "e", 1), -1);
    assert_int_equal(errno, EPIPE);
    assert_int_equal(caught, 0);
    /* The program's own is still the program's. */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGPIPE);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    assert_int_equal(write(ends[1], "e", 1), -1);
    assert_int_equal(gf_quiet_write(ends[1], "e", 1), -1);
    sigpending(&pending);
    assert_true(sigismember(&pending, SIGPIPE));
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    assert_int_equal(caught, SIGPIPE);
    assert_int_equal(write(ends[1], "e", 1), -1);
    close(ends[1]);
}

static void test_limit_of_size(void **state)
{
    char path[] = "/tmp/gpufeed-test-XXXXXX";
    const int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    unlink(path);
    signal(SIGXFSZ, catch);
    caught = 0;
    limit_file(3);
    assert_int_equal(gf_quiet_write(fd, "abcde", 5), 3);
    assert_int_equal(gf_quiet_write(fd, "abcde", 5), -1);
    const int error = errno;
    limit_file(RLIM_INFINITY);
    assert_int_equal(error, EFBIG);
    assert_int_equal(caught, 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes),
        cmocka_unit_test(test_pipe_without_reader),
        cmocka_unit_test(test_limit_of_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
