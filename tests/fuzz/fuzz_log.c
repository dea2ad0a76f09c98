/* SPDX-License-Identifier: Apache-2.0 */
/* `gpufeed report` on what calls itself a log: cut lines, lines of others, text for a terminal. */
#include "fuzz.h"

#include "cli/cli.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

/* The command's, which is not in its library. */
void gf_cli_error(const char *verb, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "gpufeed %s: ", verb);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* What it prints goes into a file. */
static int report(char *path, int to)
{
    char verb[] = "report", *argv[] = {verb, path, NULL};
    const int out = dup(STDOUT_FILENO), error = dup(STDERR_FILENO);

    fflush(stdout);
    CHECK(out >= 0 && error >= 0 && dup2(to, STDOUT_FILENO) >= 0 && dup2(to, STDERR_FILENO) >= 0);
    const int code = gf_cmd_report(2, argv);
    fflush(stdout);
    CHECK(dup2(out, STDOUT_FILENO) >= 0 && dup2(error, STDERR_FILENO) >= 0);
    close(out);
    close(error);
    return code;
}

static void check_text(int fd)
{
    static char buf[1 << 16];
    ssize_t got;

    for (off_t at = 0; (got = pread(fd, buf, sizeof(buf), at)) > 0; at += got)
        for (ssize_t i = 0; i < got; i++)
            CHECK(buf[i] == '\n' || ((unsigned char)buf[i] >= 0x20 && buf[i] != 0x7f));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int fd = memfd_create("log", MFD_CLOEXEC), to = memfd_create("text", MFD_CLOEXEC);
    char path[64];

    CHECK(fd >= 0 && to >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const int code = report(path, to);
    CHECK(code == GF_EXIT_OK || code == GF_EXIT_FAILED);
    check_text(to);
    close(fd);
    close(to);
    return 0;
}
