/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/files/out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_beside(struct gf_out_file *file)
{
    if (asprintf(&file->beside, "%s.%ld.tmp", file->path, (long)getpid()) < 0) {
        file->beside = NULL;
        return -ENOMEM;
    }
    const int fd = open(file->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    return fd < 0 ? -errno : fd;
}

int gf_out_file_begin(struct gf_out_file *file, const char *path)
{
    struct stat status;
    int fd;

    *file = (struct gf_out_file){.path = path};
    if (strcmp(path, "-") == 0) {
        file->stream = stdout;
        return 0;
    }
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        fd = fd < 0 ? -errno : fd;
    } else {
        fd = open_beside(file);
    }
    file->stream = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file->stream) {
        const int error = fd < 0 ? fd : -errno;
        if (fd >= 0)
            close(fd);
        free(file->beside);
        return error;
    }
    return 0;
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
    if (file->beside && whole && !error && rename(file->beside, file->path))
        error = -errno;
    if (file->beside && (!whole || error))
        unlink(file->beside);
    free(file->beside);
    return error;
}
