/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distinguishes a forked child, whose memory is a copy, from a child of vfork, which shares the
 * memory with the parent's running threads. The kernel wipes the mark (one word) in a copy.
 */
#ifndef GF_PRELOAD_TRACE_FORK_MARK_H
#define GF_PRELOAD_TRACE_FORK_MARK_H

#include "base/base.h"

/*
 * Sets the mark. The first call maps it with MADV_WIPEONFORK, which needs Linux 4.14. Keeps errno.
 */
void gf_fork_mark_set(void);

/*
 * Whether this memory was copied by a fork after the mark was set. True if the kernel cannot wipe
 * pages.
 */
bool gf_fork_mark_copied(void);

#endif
