/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/output_paths.h"

#include "base/path.h"
#include "cli/common/cli.h"
#include "config/options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns 0 if the file can be written or created, otherwise -errno. */
static int check_writable(const char *path)
{
    char folder[PATH_MAX];
    struct stat status;

    if (stat(path, &status) == 0) {
        if (S_ISDIR(status.st_mode))
            return -EISDIR;
        return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0 ? 0 : -errno;
    }
    if (errno != ENOENT)
        return -errno;
    const char *slash = strrchr(path, '/');
    const size_t length = slash ? (size_t)(slash - path) : 0;
    memcpy(folder, path, length);
    strcpy(folder + length, slash == path ? "/" : slash ? "" : ".");
    return faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : -errno;
}

void gf_output_paths_check(const struct gf_env *env)
{
    static const enum gf_option_index written[] = {gf_option_index_log, gf_option_index_report,
                                                   gf_option_index_metrics};
    char path[PATH_MAX];

    for (size_t i = 0; i < GF_ARRAY_LEN(written); i++) {
        const char *name = gf_option_rows[written[i]].name, *pattern = gf_env_get(env, name);
        if (!pattern || !*pattern || gf_path_expand(pattern, getpid(), -1, path, sizeof(path)))
            continue;
        const int error = check_writable(path);
        if (error)
            gf_cli_error("run", "%s=%s cannot be written now: %s", name, pattern, strerror(-error));
    }
}
