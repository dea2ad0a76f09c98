/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/fmt.h"
#include "base/output_file.h"
#include "base/path.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile sig_atomic_t caught;

static void catch (int signal)
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
    assert_int_equal(gf_safe_writev(ends[1], parts, 2), 4);
    assert_int_equal(gf_safe_write(ends[1], "e", 1), 1);
    assert_int_equal(errno, 77);
    assert_int_equal(read(ends[0], got, sizeof(got)), 5);
    assert_memory_equal(got, "abcde", 5);
    assert_int_equal(gf_safe_write(-1, "e", 1), -1);
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
    assert_int_equal(gf_safe_write(ends[1], "e", 1), -1);
    assert_int_equal(errno, EPIPE);
    assert_int_equal(caught, 0);
    /* The flags of the program's descriptor are unchanged. */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGPIPE);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    assert_int_equal(write(ends[1], "e", 1), -1);
    assert_int_equal(gf_safe_write(ends[1], "e", 1), -1);
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
    assert_int_equal(gf_safe_write(fd, "abcde", 5), 3);
    assert_int_equal(gf_safe_write(fd, "abcde", 5), -1);
    const int error = errno;
    limit_file(RLIM_INFINITY);
    assert_int_equal(error, EFBIG);
    assert_int_equal(caught, 0);
    close(fd);
}

static char folder[] = "/tmp/gpufeed-test-XXXXXX", file[64], path[64];

static size_t size_of_file(void)
{
    struct stat found;
    return stat(file, &found) == 0 ? (size_t)found.st_size : 0;
}

/* Only root can make a link of another user, so only root tests that such a link is refused. */
static void test_appends(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    gf_fmt(file, sizeof(file), "%s/file", folder);
    gf_fmt(path, sizeof(path), "%s/link", folder);
    assert_int_equal(gf_output_append(file, "a", 0, "bc", 2), 2);
    assert_int_equal(gf_output_append(file, "a", 1, "bc", 2), 3);
    assert_int_equal(size_of_file(), 5);
    assert_int_equal(gf_output_append("/dev/full", "", 0, "bc", 2), -ENOSPC);
    signal(SIGXFSZ, catch);
    limit_file(6);
    assert_int_equal(gf_output_append(file, "a", 1, "bc", 2), 1);
    assert_int_equal(gf_output_append(file, "a", 1, "bc", 2), -EFBIG);
    limit_file(RLIM_INFINITY);
    assert_int_equal(symlink(file, path), 0);
    assert_int_equal(gf_output_append(path, "", 0, "bc", 2), 2);
    assert_int_equal(size_of_file(), 8);
    if (lchown(path, 12345, 12345) == 0) {
        assert_int_equal(gf_output_append(path, "", 0, "bc", 2), -ELOOP);
        assert_int_equal(size_of_file(), 8);
    }
    unlink(path);
    unlink(file);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes),
        cmocka_unit_test(test_pipe_without_reader),
        cmocka_unit_test(test_limit_of_size),
        cmocka_unit_test(test_appends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
