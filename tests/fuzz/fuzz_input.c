/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a recorded machine: no path, and no link, leads out of its folder, whether or not the kernel has
 * openat2. Zero bytes divide the input into a path and the targets of three links.
 */
#include "fuzz.h"

#include "base/input_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_old; /* the kernel has no openat2 */

/* Replaces that of libc. Like it, it reads more arguments than a caller may pass. */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
    static long (*next)(long, ...);
    long at[6];
    va_list list;

    if (is_old && number == SYS_openat2) {
        errno = ENOSYS;
        return -1;
    }
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        at[i] = va_arg(list, long);
    va_end(list);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "syscall");
    return next(number, at[0], at[1], at[2], at[3], at[4], at[5]);
}

static char outer[] = "/tmp/gpufeed-fuzz-XXXXXX", root[64];
static const char *const links[] = {"link", "folder/link", "folder/deep/link"};

static const char *in_root(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    return path;
}

static void remove_outer(void)
{
    char command[64];
    snprintf(command, sizeof(command), "rm -rf %s", outer);
    if (system(command)) {
    }
}

static void make_file(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && close(fd) == 0);
}

static void make_tree(void)
{
    CHECK(mkdtemp(outer));
    atexit(remove_outer);
    snprintf(root, sizeof(root), "%s/out", outer);
    make_file(root);
    snprintf(root, sizeof(root), "%s/root", outer);
    CHECK(mkdir(root, 0700) == 0 && mkdir(in_root("folder"), 0700) == 0 &&
          mkdir(in_root("folder/deep"), 0700) == 0 && mkfifo(in_root("pipe"), 0600) == 0);
    make_file(in_root("file"));
    make_file(in_root("folder/deep/file"));
}

static void check_place(int fd)
{
    char link[64], path[4096];

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof(path));
    const size_t most = strlen(root);
    CHECK(length >= (ssize_t)most && memcmp(path, root, most) == 0 &&
          (length == (ssize_t)most || path[most] == '/'));
}

static void check_path(const char *path)
{
    struct stat found;
    const int fd = gf_input_open_in(root, path);
    DIR *const folder = gf_input_folder_in(root, path);
    const bool may = gf_input_access_in(root, path, R_OK);

    CHECK(may || (fd < 0 && !folder));
    if (folder) {
        check_place(dirfd(folder));
        closedir(folder);
    }
    if (fd < 0)
        return;
    CHECK(fstat(fd, &found) == 0 && S_ISREG(found.st_mode));
    check_place(fd);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = as_text(data, size), *at = text;

    if (!*root)
        make_tree();
    for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++) {
        at = at < text + size ? at + strlen(at) + 1 : at;
        unlink(in_root(links[i]));
        if (at < text + size && *at && symlink(at, in_root(links[i])))
            CHECK(errno == ENAMETOOLONG);
    }
    for (int old = 0; old < 2; old++) {
        is_old = old;
        check_path(text);
    }
    free(text);
    return 0;
}
