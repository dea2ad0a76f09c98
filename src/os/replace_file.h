/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and removes files that the user named. A thread with its own descriptor table writes them,
 * so that the program's descriptors stay as they are. The functions wait for the disk.
 */
#ifndef GF_OS_REPLACE_FILE_H
#define GF_OS_REPLACE_FILE_H

#include "base/files/output_file.h"

/* Calls gf_output_replace (base/files/output_file.h). Returns 0 or -errno. */
int gf_replace_file(const char *path, const char *bytes, size_t length, enum gf_output_flags flags);

/* Removes a regular file. If the path is a symbolic link, empties the target instead. */
void gf_remove_file(const char *path);

#endif
