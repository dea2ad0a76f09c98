/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/program_start.h"

#include "os/elf_fault.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"

#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/auxv.h>

#define LIBRARY_FILE "libgpufeed.so"
#define FORBIDDEN " :$" /* LD_PRELOAD's separators, and the character that the loader expands */

int gf_own_folder(char *ret, size_t size)
{
    const ssize_t length = readlink("/proc/self/exe", ret, size - 1);
    if (length <= 0)
        return -ENOENT;
    ret[length] = '\0';
    char *slash = strrchr(ret, '/');
    if (!slash)
        return -ENOENT;
    *slash = '\0';
    return 0;
}

/*
 * For a folder whose path LD_PRELOAD cannot hold: tries the path by which this command was started,
 * because that path may contain a link to the folder.
 */
static bool find_through_link(const char *real, char *ret, size_t size)
{
    const char *started =
        (const char *)getauxval(AT_EXECFN); /* NOLINT(performance-no-int-to-ptr) */
    const char *slash = started ? strrchr(started, '/') : NULL;
    const char *folder = slash ? memrchr(started, '/', (size_t)(slash - started)) : NULL;
    char same[PATH_MAX];

    if (!folder || *started != '/')
        return false;
    const int length =
        snprintf(ret, size, "%.*s/lib/" LIBRARY_FILE, (int)(folder - started), started);
    return length < (int)size && !strpbrk(ret, FORBIDDEN) && realpath(ret, same) &&
           strcmp(same, real) == 0;
}

int gf_ld_preload_find(char *ret, size_t size)
{
    static const char *const places[] = {
        GF_LIBDIR_FROM_BINDIR, /* installed */
        "../lib",              /* a bundle */
        "../preload",          /* a build tree */
    };
    char folder[PATH_MAX], candidate[PATH_MAX], real[PATH_MAX];

    if (gf_own_folder(folder, sizeof(folder)))
        return -ENOENT;
    for (size_t i = 0; i < GF_ARRAY_LEN(places); i++) {
        const int length =
            snprintf(candidate, sizeof(candidate), "%s/%s/" LIBRARY_FILE, folder, places[i]);
        if (length >= (int)sizeof(candidate) || !realpath(candidate, real) || strlen(real) >= size)
            continue;
        const bool fits = !strpbrk(real, FORBIDDEN);
        if (!fits && find_through_link(real, ret, size))
            return 0;
        strcpy(ret, real);
        return fits ? 0 : -EINVAL;
    }
    return -ENOENT;
}

static bool is_library(const char *entry, size_t length)
{
    const size_t name = sizeof(LIBRARY_FILE) - 1;

    return length >= name && strncmp(entry + length - name, LIBRARY_FILE, name) == 0 &&
           (length == name || entry[length - name - 1] == '/');
}

char *gf_ld_preload_join(const char *library, const char *present)
{
    static const char separators[] = " :"; /* the loader splits LD_PRELOAD at these */
    const char *rest = present ? present : "";
    char *joined = gf_cli_memory(malloc(strlen(library) + strlen(rest) + 2));

    strcpy(joined, library);
    while (*(rest += strspn(rest, separators))) {
        const size_t length = strcspn(rest, separators);
        if (!is_library(rest, length))
            strncat(strcat(joined, ":"), rest, length);
        rest += length;
    }
    return joined;
}

static int report_forbidden(const char *library)
{
    char folder[PATH_MAX], quoted[4 * PATH_MAX] = "";

    snprintf(folder, sizeof(folder), "%s", dirname(dirname(strdupa(library))));
    FILE *out = fmemopen(quoted, sizeof(quoted), "w");
    if (out) {
        gf_shell_word(out, folder);
        fclose(out);
    }
    return gf_cli_fail(
        GF_EXIT_FAILED,
        "%s: LD_PRELOAD cannot hold a path with a blank, a colon or a dollar sign; make a "
        "link, ln -s %s /opt/gpufeed, and use /opt/gpufeed/bin/gpufeed",
        library, quoted);
}

static int print_path(const char *library)
{
    const char *fault = gf_elf_fault(library);

    if (!fault) {
        puts(library);
        return GF_EXIT_OK;
    }
    return gf_cli_fail(GF_EXIT_FAILED, "cannot preload %s: %s; install it again", library, fault);
}

int gf_cmd_preload_path(int argc, char **argv)
{
    char library[PATH_MAX];

    if (argc > 1 && strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0)
        return gf_flags_excess(argv[1]);
    if (argc > 1) {
        puts("Usage: gpufeed preload-path\n\n"
             "Prints the absolute path of libgpufeed.so, for LD_PRELOAD. If LD_PRELOAD\n"
             "cannot hold the path, the command fails and suggests a link with another path.\n\n"
             "Exit code: 0; 1 if LD_PRELOAD cannot hold the path; 2 if the command line is\n"
             "not valid.");
        return GF_EXIT_OK;
    }
    switch (gf_ld_preload_find(library, sizeof(library))) {
    case 0:
        return print_path(library);
    case -EINVAL:
        return report_forbidden(library);
    default:
        return gf_cli_fail(GF_EXIT_FAILED,
                           "libgpufeed.so is not in %s, relative to this command's folder",
                           GF_LIBDIR_FROM_BINDIR);
    }
}
