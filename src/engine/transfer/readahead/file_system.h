/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the library may read pages of a file before the program needs them. It may if the file is
 * on a disk of this machine, and if no limit on the process's control groups slows reading or the
 * use of the page cache.
 */
#ifndef GF_ENGINE_TRANSFER_READAHEAD_FILE_SYSTEM_H
#define GF_ENGINE_TRANSFER_READAHEAD_FILE_SYSTEM_H

#include "base/base.h"

/*
 * Checks this for a device with these numbers, as in /proc/self/maps. root: os/procfs.h. Opens
 * files, so a hook calls it only if the library's own thread cannot. errno may change.
 */
bool gf_file_system_allows_readahead(const char *root, unsigned major, unsigned minor);

#endif
