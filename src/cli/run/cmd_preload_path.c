/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/cmd_preload_path.h"

#include "cli/common/cli.h"
#include "cli/run/ld_preload.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Removes the last count components of path. */
static void strip_components(char *path, unsigned count)
{
    while (count--) {
        char *slash = strrchr(path, '/');
        if (slash)
            *slash = '\0';
    }
}

/* Quotes a path for a shell. */
static const char *quote(const char *path, char *buf, size_t size)
{
    size_t at = 0;

    buf[at++] = '\'';
    for (; *path && at + 6 < size; path++) {
        if (*path == '\'') {
            memcpy(buf + at, "'\\''", 4);
            at += 4;
        } else {
            buf[at++] = *path;
        }
    }
    buf[at++] = '\'';
    buf[at] = '\0';
    return buf;
}

static int report_forbidden(const char *library)
{
    char folder[PATH_MAX], quoted[PATH_MAX];

    snprintf(folder, sizeof(folder), "%s", library);
    strip_components(folder, 2);
    gf_cli_error("preload-path",
                 "%s: LD_PRELOAD cannot hold a path with a blank, a colon or a dollar sign; make a "
                 "link, ln -s %s /opt/gpufeed, and use /opt/gpufeed/bin/gpufeed",
                 library, quote(folder, quoted, sizeof(quoted)));
    return GF_EXIT_FAILED;
}

int gf_cmd_preload_path(int argc, char **argv)
{
    char library[PATH_MAX];

    if (argc > 1) {
        puts("Usage: gpufeed preload-path\n\n"
             "Prints the absolute path of libgpufeed.so, for LD_PRELOAD. If LD_PRELOAD\n"
             "cannot hold the path, the command fails and suggests a link with another path.");
        return strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ? GF_EXIT_OK
                                                                            : GF_EXIT_USAGE;
    }
    switch (gf_ld_preload_find(library, sizeof(library))) {
    case 0:
        puts(library);
        return GF_EXIT_OK;
    case -EINVAL:
        return report_forbidden(library);
    default:
        gf_cli_error("preload-path",
                     "libgpufeed.so is not in %s, relative to this command's folder",
                     GF_LIBDIR_FROM_BINDIR);
        return GF_EXIT_FAILED;
    }
}
