/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind of file system that a file is on. Files on network file systems are rewritten less
 * often.
 */
#ifndef GF_OS_FILE_PLACE_H
#define GF_OS_FILE_PLACE_H

#include "base/base.h"

enum gf_file_place {
    gf_file_place_local,
    gf_file_place_network, /* the file is on other machines, or a process serves it (FUSE) */
    gf_file_place_stream,  /* not a regular file: a device or a pipe */
    gf_file_place_unknown, /* the file does not exist or cannot be examined */
};

/* magic: f_type of statfs(2). */
bool gf_file_place_is_network(unsigned long magic);
/* May wait for the file system. Keeps errno. */
enum gf_file_place gf_file_place_of(const char *path);

#endif
