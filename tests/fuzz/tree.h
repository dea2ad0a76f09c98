/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of files whose content is the input. The including file defines `files`, their names. */
#ifndef FUZZ_TREE_H
#define FUZZ_TREE_H

#include "fuzz.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES (sizeof(files) / sizeof(files[0]))

static char root[] = "/dev/shm/gpufeed-fuzz-XXXXXX";

static void path_of(const char *file, char *ret, size_t size)
{
    snprintf(ret, size, "%s/%s", root, file);
}

static void remove_root(void)
{
    char command[64];
    snprintf(command, sizeof(command), "rm -rf %s", root);
    if (system(command)) {
    }
}

static void make_root(void)
{
    char path[256];

    if (!mkdtemp(root)) {
        memcpy(root, "/tmp/gpufeed-fuzz-XXXXXX", sizeof("/tmp/gpufeed-fuzz-XXXXXX"));
        CHECK(mkdtemp(root));
    }
    atexit(remove_root);
    for (size_t i = 0; i < FILES; i++) {
        path_of(files[i], path, sizeof(path));
        for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
            *slash = '\0';
            mkdir(path, 0777);
        }
    }
}

/* Zero bytes divide the input into parts, one for each file. A missing part is a missing file. */
static void put_files(const uint8_t *data, size_t size)
{
    char path[256];

    for (size_t i = 0; i < FILES; i++) {
        const uint8_t *end = size ? memchr(data, 0, size) : NULL;
        const size_t length = end ? (size_t)(end - data) : size;
        path_of(files[i], path, sizeof(path));
        unlink(path);
        if (length) {
            const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
            CHECK(fd >= 0 && write(fd, data, length) == (ssize_t)length);
            close(fd);
        }
        const size_t used = length + (end != NULL);
        data += used;
        size -= used;
    }
}

#endif
