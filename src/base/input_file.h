/* SPDX-License-Identifier: Apache-2.0 */
/* Opens files whose paths other programs or users wrote. */
#ifndef GF_BASE_INPUT_FILE_H
#define GF_BASE_INPUT_FILE_H

#include "base/base.h"

/*
 * Opens a regular file for reading. Returns a descriptor or -errno; -EISDIR or -EINVAL if
 * the path names another kind of file. Opening a device or a FIFO may wait or have side effects, so the type is
 * checked before the file is opened. If the path names another file by then, the error is -EAGAIN.
 */
int gf_input_open(const char *path);

#endif
