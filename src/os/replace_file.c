/* SPDX-License-Identifier: Apache-2.0 */
#include "os/replace_file.h"

#include "base/files/output_file.h"
#include "os/own_table.h"

#include <errno.h>

struct replacement {
    const char *path, *bytes; /* bytes: NULL to remove the file */
    size_t length;
    enum gf_output_flags flags;
    int error;
};

static void run_replacement(void *closure)
{
    struct replacement *one = closure;

    if (one->bytes)
        one->error = gf_output_replace(one->path, one->bytes, one->length, one->flags);
    else if ((one->error = gf_output_remove(one->path)) == -ELOOP)
        one->error = gf_output_replace(one->path, "", 0, one->flags);
}

/*
 * If no thread with its own descriptor table can be started, the calling thread writes the file,
 * because the user has requested it.
 */
int gf_replace_file(const char *path, const char *bytes, size_t length, enum gf_output_flags flags)
{
    struct replacement replacement = {path, bytes, length, flags, 0};

    if (!gf_own_table_run_as(gf_server_writes, run_replacement, &replacement))
        run_replacement(&replacement);
    return replacement.error;
}

void gf_remove_file(const char *path)
{
    gf_replace_file(path, NULL, 0, gf_output_shared);
}
