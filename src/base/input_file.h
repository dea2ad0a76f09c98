/* SPDX-License-Identifier: Apache-2.0 */
/* Opens files whose paths other programs or users wrote. */
#pragma once

#include "base/base.h"

#include <dirent.h>

/*
 * Opens a regular file for reading. Returns a descriptor or -errno; -EISDIR or -EINVAL if the path
 * names another kind of file, or a file that the kernel makes up, as in /proc and /sys. Opening a
 * device, a FIFO or a file of the kernel may wait or have side effects: the close of free_buffer in tracefs
 * discards the trace. So a file of another kind is never opened, even if it replaces the file meanwhile. Needs
 * /proc. Makes only system calls, as os/procfs.h does.
 */
int gf_input_open(const char *path);

/*
 * As gf_input_open, for a file of a recorded machine. In the path, and in links, the folder `root` is
 * "/", so that a recording names no file outside of it. Where the kernel lacks openat2 (Linux 5.6), no
 * link below `root` is followed.
 */
int gf_input_open_in(const char *root, const char *path);

/* access() for a file of a recorded machine; with the root "", of this system. Opens no file, also no device. */
bool gf_input_access_in(const char *root, const char *path, int mode);

/* A folder that is read. It ends after GF_FOLDER_MOST names, because one of a FUSE file system may have no end. */
struct gf_folder {
    DIR *entries; /* NULL if it cannot be read; errno says why */
    unsigned names;
};

#define GF_FOLDER_MOST 100000u

/* Opens a folder, which is closed at the end of the block. */
#define GF_FOLDER(name, path) GF_FOLDER_IN(name, "", path)
/* Opens one of a recorded machine; with the root "", one of this system. */
#define GF_FOLDER_IN(name, root, path)                                                             \
    struct gf_folder name                                                                          \
        __attribute__((cleanup(gf_folder_close))) = {gf_input_folder_in(root, path), 0}

DIR *gf_input_folder_in(const char *root, const char *path);
void gf_folder_close(const struct gf_folder *folder);

/* Returns the next name that does not begin with a dot; NULL at the end, and if the folder cannot be read. */
const char *gf_folder_next(struct gf_folder *folder);

/*
 * As gf_input_open, for a path that the user has named. Opens also a file that the kernel makes up, a pipe of a
 * shell, and a named pipe of root or of the process's user, and waits until it is written to. Another user's
 * pipe is refused, because nothing may ever be written to it. A file of the kernel or a pipe is refused if a
 * link leads to it that output files do not follow, or if it has a second name: its bytes may be for a service.
 */
int gf_input_open_or_pipe(const char *path);
