/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include "base/fmt.h"

#include <signal.h>
#include <sys/utsname.h>
#include <time.h>

void gf_path_copy_end(const char *path, char *ret, size_t size)
{
    const size_t length = strlen(path);
    gf_fmt(ret, size, "%s", length < size ? path : path + (length - size + 1));
}

/*
 * Whether TorchInductor wrote the file: it is named after its contents' hash, which is "c" and 51 letters
 * and digits of base 32.
 */
static bool is_generated(const char *path)
{
    const char *name = gf_path_file_name(path);
    return strspn(name, "abcdefghijklmnopqrstuvwxyz234567") == 52 && *name == 'c' &&
           strcmp(name + 52, ".py") == 0;
}

bool gf_path_is_python_library(const char *path)
{
    static const char *const typed[] = {"<stdin>", "<string>", "<ipython-input", "<python-input"};

    if (*path == '<') { /* code without a file, such as NumPy's "<__array_function__ internals>" */
        for (size_t i = 0; i < GF_ARRAY_LEN(typed); i++)
            if (gf_begins(path, typed[i]))
                return false;
        return true;
    }
    return strstr(path, "/site-packages/") || strstr(path, "/dist-packages/") ||
           strstr(path, "/lib/python3") || strstr(path, "/lib64/python3") || is_generated(path);
}

int gf_path_expand(const char *pattern, pid_t pid, int rank, char *ret, size_t size)
{
    struct utsname host;
    size_t at = 0;

    if (uname(&host) != 0)
        memcpy(host.nodename, "localhost", sizeof("localhost"));
    /*
     * A host name may contain any byte. A '/' in it, and a '.' at its begin, are replaced, so that
     * it does not name another folder.
     */
    for (char *slash; (slash = strchr(host.nodename, '/'));)
        *slash = '_';
    if (*host.nodename == '.')
        *host.nodename = '_';
    for (const char *p = pattern; *p && at < size; p++) {
        const char kind = (char)(*p == '%' ? p[1] : '\0');
        if (kind == 'p')
            at += (size_t)gf_fmt(ret + at, size - at, "%d", pid);
        else if (kind == 'h')
            at += (size_t)gf_fmt(ret + at, size - at, "%s", host.nodename);
        else if (kind == 'r')
            at += (size_t)gf_fmt(ret + at, size - at, "%d", gf_max(rank, 0));
        else
            ret[at++] = *p;
        if (kind == 'p' || kind == 'h' || kind == 'r' || kind == '%')
            p++;
    }
    if (at >= size)
        return -ENAMETOOLONG;
    ret[at] = '\0';
    return 0;
}

/*
 * The bit of a signal in the kernel's signal set. libc's functions for signal sets are not used,
 * because another preload may replace them.
 */
#define BIT(signal) (UINT64_C(1) << ((signal)-1))

ssize_t gf_safe_writev(int fd, const struct iovec *parts, int count)
{
    const uint64_t raised = BIT(SIGPIPE) | BIT(SIGXFSZ) | BIT(SIGTTOU);
    const struct timespec at_once = {0, 0};
    uint64_t before = 0, pending = raised;

    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &raised, &before, sizeof(raised));
    syscall(SYS_rt_sigpending, &pending, sizeof(pending));
    const ssize_t written = syscall(SYS_writev, fd, parts, count);
    const int error = errno;
    /* Removes the signal that this write raised, unless the same signal was pending before. */
    const uint64_t ours = (error == EPIPE   ? BIT(SIGPIPE)
                           : error == EFBIG ? BIT(SIGXFSZ)
                                            : 0) &
                          ~pending;
    if (written < 0 && ours)
        syscall(SYS_rt_sigtimedwait, &ours, NULL, &at_once, sizeof(ours));
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
    errno = error;
    return written;
}
