/* SPDX-License-Identifier: Apache-2.0 */
/* Where libgpufeed.so is, and the value of LD_PRELOAD that brings it in first. */
#ifndef GF_CLI_PRELOAD_H
#define GF_CLI_PRELOAD_H

#include "base/base.h"

/*
 * The absolute path of libgpufeed.so, found from the place of this command: installed, in a bundle
 * or in a build tree. 0, -ENOENT, or -EINVAL when LD_PRELOAD cannot carry the path (it separates
 * by blanks and colons); ret then holds the path.
 */
int gf_preload_find(char *ret, size_t size);

/* library, then what was in present (may be NULL) without other copies of it. Caller frees. */
char *gf_preload_join(const char *library, const char *present);

#endif
