/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `gpufeed report`, in each of its forms, on files that claim to be a log or a report: cut lines,
 * foreign lines, control characters.
 */
#include "fuzz.h"

#include "tools/common/cli.h"

#include <sys/mman.h>
#include <unistd.h>

/* The output goes into a file. */
static int report(char *form, char *path, int to)
{
    char verb[] = "report", *argv[] = {verb, form, path, NULL};
    const int out = dup(STDOUT_FILENO), error = dup(STDERR_FILENO);

    fflush(stdout);
    CHECK(out >= 0 && error >= 0 && dup2(to, STDOUT_FILENO) >= 0 && dup2(to, STDERR_FILENO) >= 0);
    const int code = gf_cmd_report(3, argv);
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
    static char forms[][24] = {"--top=9",        "--events",     "--json",    "--folded",
                               "--by=thread",    "--rank=1,3-5", "--html=-",  "--perfetto=-",
                               "--prometheus=-", "--by=rank",    "--by=step", "--since=1s"};
    const int fd = memfd_create("log", MFD_CLOEXEC);
    char path[64];

    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const int to = memfd_create("text", MFD_CLOEXEC);
        CHECK(to >= 0);
        const int code = report(forms[i], path, to);
        CHECK(code == GF_EXIT_OK || code == GF_EXIT_FAILED);
        check_text(to);
        close(to);
    }
    close(fd);
    return 0;
}
