/* SPDX-License-Identifier: Apache-2.0 */
#include "os/replace_file.h"

#include "base/path.h"
#include "os/own_table.h"

#include <sys/stat.h>
#include <unistd.h>

struct replacement {
    const char *path, *bytes;
    size_t length;
    int error;
};

static void run_replacement(void *closure)
{
    struct replacement *replacement = closure;
    replacement->error =
        gf_path_replace(replacement->path, replacement->bytes, replacement->length);
}

/*
 * If no thread with its own descriptor table can be started, the calling thread writes the file,
 * because the user has requested it.
 */
int gf_replace_file(const char *path, const char *bytes, size_t length)
{
    struct replacement replacement = {path, bytes, length, 0};

    if (!gf_own_table_run_as(gf_server_writes, run_replacement, &replacement))
        run_replacement(&replacement);
    return replacement.error;
}

/* Usually needs no other thread, because unlink uses no descriptor. */
void gf_remove_file(const char *path)
{
    struct stat found;

    if (lstat(path, &found))
        return;
    if (S_ISREG(found.st_mode))
        unlink(path);
    else if (S_ISLNK(found.st_mode))
        gf_replace_file(path, "", 0);
}
