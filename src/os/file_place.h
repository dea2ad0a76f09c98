/* SPDX-License-Identifier: Apache-2.0 */
/* Where a file is, which decides how often it may be rewritten. */
#ifndef GF_OS_FILE_PLACE_H
#define GF_OS_FILE_PLACE_H

#include "base/base.h"

enum gf_file_place {
    gf_file_place_local,
    gf_file_place_network, /* a file system of other machines, or of a process (FUSE) */
    gf_file_place_stream,  /* not a regular file: a device or a pipe */
    gf_file_place_unknown, /* the file does not exist or cannot be examined */
};

/* By the magic number of statfs(2). */
bool gf_file_place_is_network(unsigned long magic);
/* May wait as long as the file system does. Keeps errno. */
enum gf_file_place gf_file_place_of(const char *path);

#endif
