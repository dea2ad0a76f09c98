/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/files/out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

int gf_out_file_begin(struct gf_out_file *file, const char *path, enum gf_output_flags flags)
{
    *file = (struct gf_out_file){.stream = stdout};
    if (strcmp(path, "-") == 0)
        return 0;
    const int error = gf_output_begin(&file->output, path, flags);
    if (error)
        return error;
    /* Opening a pipe must not wait, but writing may: its reader has opened it. */
    fcntl(file->output.fd, F_SETFL, fcntl(file->output.fd, F_GETFL) & ~O_NONBLOCK);
    const int copy = fcntl(file->output.fd, F_DUPFD_CLOEXEC, 0);
    file->stream = copy < 0 ? NULL : fdopen(copy, "w");
    if (file->stream)
        return 0;
    gf_output_end(&file->output, false);
    return -ENOMEM;
}

int gf_out_file_end(struct gf_out_file *file, bool whole)
{
    int error = 0;

    if (file->stream == stdout)
        return 0; /* main checks standard output for errors */
    if (fflush(file->stream) || ferror(file->stream))
        error = errno ? -errno : -EIO;
    if (fclose(file->stream) && !error)
        error = -errno;
    const int ended = gf_output_end(&file->output, whole && !error);
    return error ? error : ended;
}
