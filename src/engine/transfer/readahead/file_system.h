/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the library may read pages of a file before the program needs them. It may if the
 * file is on a disk of this machine, and if no limit of the process's control groups restricts
 * reading or the page cache.
 */
#ifndef GF_ENGINE_TRANSFER_READAHEAD_FILE_SYSTEM_H
#define GF_ENGINE_TRANSFER_READAHEAD_FILE_SYSTEM_H

#include "base/base.h"

/*
 * Whether this holds for files on the device with these numbers, as in /proc/self/maps. `root`: as
 * in os/procfs.h. Opens files, so a hook calls this function only if the library has no own thread.
 * May change errno.
 */
bool gf_file_system_allows_readahead(const char *root, unsigned major, unsigned minor);

#endif
