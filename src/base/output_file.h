/* SPDX-License-Identifier: Apache-2.0 */
/* Output files, opened by one rule. */
#pragma once

#include "base/base.h"

#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>

/*
 * Whether f_type of statfs(2) is of a file system on another machine, or served by a process
 * (FUSE).
 */
static inline bool gf_is_network_fs(unsigned long magic)
{
    switch (magic & 0xffffffffu) {
    case NFS_SUPER_MAGIC:
    case AFS_SUPER_MAGIC:
    case AFS_FS_MAGIC:
    case CODA_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case CIFS_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC:
    case CEPH_SUPER_MAGIC:
    case V9FS_MAGIC:
    case FUSE_SUPER_MAGIC: /* object stores, sshfs, GlusterFS */
    case OCFS2_SUPER_MAGIC:
    case 0x01161970: /* GFS2 */
    case 0x0bd00bd0: /* Lustre */
    case 0x19830326: /* BeeGFS */
    case 0x20030528: /* OrangeFS */
    case 0x47504653: /* IBM Storage Scale (GPFS) */
    case 0xaad7aaea: /* PanFS */
    case 0x786f4256: /* vboxsf */
        return true;
    default:
        return false;
    }
}

static inline bool gf_is_trusted_owner(const struct stat *found)
{
    return found->st_uid == 0 || found->st_uid == geteuid();
}

enum gf_file_place {
    gf_file_place_local,
    gf_file_place_network, /* the file is on another machine, or a process serves it (FUSE) */
    gf_file_place_stream,  /* not a regular file: a device or a pipe */
};

/*
 * The file at a path before and after it was replaced; st_ino is 0 if there was none. A caller that looked
 * the path up itself would follow another user's link, and wait for the file system to which it leads.
 */
struct gf_replaced {
    struct stat before, after;
    enum gf_file_place place;
};

/*
 * Opens the files that the user named for writing. No other module opens a file for writing
 * (tests/lint/writes.py), so one rule holds for each file:
 *
 * - The path is resolved folder by folder, and the file is opened relative to its folder. So another
 *   user who renames a folder or plants a link meanwhile cannot redirect the file.
 * - A symbolic link is followed only if root or the process's user owns it and the folder it is in.
 *   A new file replaces any other link; an append fails. A link on a FUSE file system that another user
 *   has mounted, whose owners may be false, is followed only to a file in the same file system.
 * - A pipe is written only if root or the process's user owns it, and not on such a file system. The
 *   open never waits for a reader.
 * - In a folder that others may write to, a link, pipe or log with a second name is not used, because
 *   another user may have given it this name.
 *   Devices, and the files behind /proc/self/fd, are appended to. Block devices and sockets are
 *   refused.
 * - A new file has mode 0600.
 *
 * The functions allocate nothing, and may be called on any thread, also inside malloc and in a
 * forked child. They use descriptors (os/own_table.h), and change errno.
 */

enum gf_output_flags {
    gf_output_private = 0,
    gf_output_shared = 1,  /* mode 0666 minus the umask: a program of another user reads the file */
    gf_output_folders = 2, /* missing folders are created, with mode 0700 */
};

struct gf_output {
    int fd;     /* for the caller to write to */
    int folder; /* of the new file; -1 if the bytes go to a device, a pipe or an open file */
    char name[NAME_MAX + 1];
    char beside[40];              /* name of the new file until it is renamed */
    struct gf_replaced *replaced; /* NULL: not wanted, which saves calls */
};

/*
 * Opens a new file, which replaces the file at path when gf_output_end is called. If path is a
 * device, a pipe or an open file, opens that to append. Returns 0 or -errno.
 */
int gf_output_begin(struct gf_output *output, const char *path, enum gf_output_flags flags);
/*
 * Closes the descriptors. If `whole` is true, renames the new file to its path: a reader sees the
 * old or the new content. Otherwise, or if this fails, deletes it. Returns 0 or -errno.
 */
int gf_output_end(struct gf_output *output, bool whole);
/* Does both, with these bytes. Returns 0 or -errno. */
int gf_output_replace(const char *path, const void *bytes, size_t length, enum gf_output_flags);
/* The same. Also sets *ret, unless ret is NULL. */
int gf_output_replace_seen(const char *path, const void *bytes, size_t length,
                           enum gf_output_flags flags, struct gf_replaced *ret);

/*
 * Returns a descriptor, opened with O_PATH, of the file that gf_output_begin would replace. If it would
 * write through a link of procfs, the descriptor is that of the link's target. Returns -ENOENT without a
 * file, and another -errno where gf_output_begin would fail, as at a link that it does not follow.
 */
int gf_output_find(const char *path);

/* Opens the file to append, and creates it if it is missing. Returns a descriptor or -errno. */
int gf_output_open_to_append(const char *path);
/*
 * Appends both texts to the file by one write. Returns -errno, or the number of bytes written,
 * which is less than the length of both texts if the file system is full.
 */
ssize_t gf_output_append(const char *path, const char *first, size_t first_length,
                         const char *second, size_t second_length);

/*
 * Whether another user may have mounted the FUSE file system that the file is on. The process that serves
 * it states the owners of its files as it likes.
 */
bool gf_is_served(int fd);

/* Removes the file at path if it is a regular file. Returns 0; -ELOOP if path is a link; -errno. */
int gf_output_remove(const char *path);

/* Returns the text of a negative error of the functions above, for messages. */
const char *gf_output_reason(int error);
