/* SPDX-License-Identifier: Apache-2.0 */
/* The path of libgpufeed.so, and the value of LD_PRELOAD that loads it first. */
#ifndef GF_CLI_RUN_LD_PRELOAD_H
#define GF_CLI_RUN_LD_PRELOAD_H

#include "base/base.h"

/*
 * Finds the absolute path of libgpufeed.so, relative to this command: installed, in a bundle or in
 * a build tree. 0 or -ENOENT. -EINVAL if LD_PRELOAD cannot hold the path, which ret then has:
 * blanks and colons separate its entries, and the loader expands dollar signs. If the command was
 * started through a link to its folder, the path through that link is tried, too.
 */
int gf_ld_preload_find(char *ret, size_t size);

/*
 * The value "library", followed by the entries of present (may be NULL) except other copies of the
 * library. The caller frees the result, which is NULL if there is no memory.
 */
char *gf_ld_preload_join(const char *library, const char *present);

#endif
