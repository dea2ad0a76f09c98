/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the library may read pages of a file before the program needs them. It may if this takes
 * no bandwidth and no memory from other processes that a limit or a remote server controls.
 */
#ifndef GF_ENGINE_TRANSFER_READAHEAD_FILE_SYSTEM_H
#define GF_ENGINE_TRANSFER_READAHEAD_FILE_SYSTEM_H

#include "base/base.h"

/*
 * True in two conditions: the device, numbered as in /proc/self/maps, is a mounted file system on a
 * disk, and no limit of this process's control groups slows its reading or its use of the page
 * cache. root: os/procfs.h. Opens files, so a hook calls it only if the library's own thread
 * cannot. errno may change.
 */
bool gf_file_system_allows_readahead(const char *root, unsigned major, unsigned minor);

#endif
