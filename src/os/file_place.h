/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the kind of file system that a file is on. The library rewrites a report on a network file
 * system less often.
 */
#pragma once

enum gf_file_place {
    gf_file_place_local,
    gf_file_place_network, /* the file is on another machine, or a process serves it (FUSE) */
    gf_file_place_stream,  /* not a regular file: a device or a pipe */
    gf_file_place_unknown, /* the file does not exist or cannot be examined */
};

/* Finds the kind of file at path. The call may wait for the file system. Keeps errno. */
enum gf_file_place gf_file_place_of(const char *path);
