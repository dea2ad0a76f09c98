/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

/* Copies the folder of the running command, without a trailing slash. Returns 0 or -ENOENT. */
int gf_own_folder(char *ret, size_t size);

/*
 * Finds the absolute path of libgpufeed.so from the path of this command. The command may be
 * installed, in a bundle or in a build tree. Returns 0 or -ENOENT. LD_PRELOAD cannot hold some
 * paths: blanks and colons separate its entries, and the loader expands dollar signs. If the
 * command was started through a symbolic link, the link's path is used instead of such a path.
 * Otherwise returns -EINVAL, with the path in ret.
 */
int gf_ld_preload_find(char *ret, size_t size);

/*
 * Returns the library's path, followed by the entries of `present` (may be NULL) except other
 * copies of the library. The caller frees the result.
 */
char *gf_ld_preload_join(const char *library, const char *present);
