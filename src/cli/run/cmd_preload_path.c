/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/cmd_preload_path.h"

#include "cli/common/cli.h"
#include "cli/common/flags.h"
#include "cli/common/shell_word.h"
#include "cli/run/ld_preload.h"
#include "os/elf_fault.h"

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

static int report_forbidden(const char *library)
{
    char folder[PATH_MAX], quoted[4 * PATH_MAX] = "";

    snprintf(folder, sizeof(folder), "%s", library);
    strip_components(folder, 2);
    FILE *out = fmemopen(quoted, sizeof(quoted), "w");
    if (out) {
        gf_shell_word(out, folder);
        fclose(out);
    }
    gf_cli_error("preload-path",
                 "%s: LD_PRELOAD cannot hold a path with a blank, a colon or a dollar sign; make a "
                 "link, ln -s %s /opt/gpufeed, and use /opt/gpufeed/bin/gpufeed",
                 library, quoted);
    return GF_EXIT_FAILED;
}

static int print_path(const char *library)
{
    const char *fault = gf_elf_fault(library);

    if (!fault) {
        puts(library);
        return GF_EXIT_OK;
    }
    gf_cli_error("preload-path", "cannot preload %s: %s; install it again", library, fault);
    return GF_EXIT_FAILED;
}

int gf_cmd_preload_path(int argc, char **argv)
{
    char library[PATH_MAX];

    if (argc > 1 && strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0)
        return gf_flags_excess("preload-path", argv[1]);
    if (argc > 1) {
        puts("Usage: gpufeed preload-path\n\n"
             "Prints the absolute path of libgpufeed.so, for LD_PRELOAD. If LD_PRELOAD\n"
             "cannot hold the path, the command fails and suggests a link with another path.");
        return GF_EXIT_OK;
    }
    switch (gf_ld_preload_find(library, sizeof(library))) {
    case 0:
        return print_path(library);
    case -EINVAL:
        return report_forbidden(library);
    default:
        gf_cli_error("preload-path",
                     "libgpufeed.so is not in %s, relative to this command's folder",
                     GF_LIBDIR_FROM_BINDIR);
        return GF_EXIT_FAILED;
    }
}
