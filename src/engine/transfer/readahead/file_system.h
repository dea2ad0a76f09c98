/* SPDX-License-Identifier: Apache-2.0 */
/* Whether reading a file's pages before the program asks for them disturbs nobody else. */
#ifndef GF_ENGINE_TRANSFER_READAHEAD_FILE_SYSTEM_H
#define GF_ENGINE_TRANSFER_READAHEAD_FILE_SYSTEM_H

#include "base/base.h"

/*
 * Whether the device, as in /proc/self/maps, is a mounted file system on a disk, and no limit of
 * this process's control groups slows its reading or its use of the page cache. root: os/procfs.h.
 * Opens files, so a hook calls it only if no other thread can. errno may change.
 */
bool gf_file_system_allows_readahead(const char *root, unsigned major, unsigned minor);

#endif
