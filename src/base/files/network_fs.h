/* SPDX-License-Identifier: Apache-2.0 */
/* Which file systems are on another machine, or served by a process (FUSE). */
#ifndef GF_BASE_FILES_NETWORK_FS_H
#define GF_BASE_FILES_NETWORK_FS_H

#include "base/base.h"

#include <linux/magic.h>

/* Whether f_type of statfs(2) is that of a network file system. */
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

#endif
