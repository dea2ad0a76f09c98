/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/whole_file.h"

#include "base/input_file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file may change meanwhile, so no more bytes are read than it had. */
static char *read_bytes(int fd, size_t size, size_t *ret_length)
{
    char *text = malloc(size + 1);
    ssize_t got = 1;

    for (*ret_length = 0;
         text && got > 0 && *ret_length<size; *ret_length += got> 0 ? (size_t)got : 0)
        got = read(fd, text + *ret_length, size - *ret_length);
    if (text && got >= 0) {
        text[*ret_length] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

char *gf_whole_file_read(const char *path, size_t most, size_t *ret_length)
{
    const int fd = gf_input_open(path);
    struct stat found;
    char *text = NULL;
    int error = fd < 0 ? -fd : 0;

    if (!error && fstat(fd, &found))
        error = errno;
    if (!error && (found.st_size < 0 || (size_t)found.st_size > most))
        error = EFBIG;
    if (!error && !(text = read_bytes(fd, (size_t)found.st_size, ret_length)))
        error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return text;
}
