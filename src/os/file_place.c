/* SPDX-License-Identifier: Apache-2.0 */
#include "os/file_place.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

bool gf_file_place_is_network(unsigned long magic)
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

enum gf_file_place gf_file_place_of(const char *path)
{
    const int error = errno;
    enum gf_file_place ret = gf_file_place_unknown;
    struct stat file;
    struct statfs system;

    if (stat(path, &file) == 0) {
        if (!S_ISREG(file.st_mode))
            ret = gf_file_place_stream;
        else if (statfs(path, &system) == 0)
            ret = gf_file_place_is_network((unsigned long)system.f_type) ? gf_file_place_network
                                                                         : gf_file_place_local;
    }
    errno = error;
    return ret;
}
