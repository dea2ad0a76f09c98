/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_COMMON_WHOLE_FILE_H
#define GF_CLI_COMMON_WHOLE_FILE_H

#include <stddef.h>

/*
 * Reads a regular file of at most `most` bytes. Returns its text, which the caller frees, and its
 * length. Returns NULL and sets errno if the file is of another kind (EINVAL), is larger (EFBIG), or
 * cannot be read.
 */
char *gf_whole_file_read(const char *path, size_t most, size_t *ret_length);

#endif
