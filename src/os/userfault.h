/* SPDX-License-Identifier: Apache-2.0 */
/* Finds whether the program monitors memory by userfaultfd. */
#ifndef GF_OS_USERFAULT_H
#define GF_OS_USERFAULT_H

#include "base/base.h"

/*
 * Whether the calling thread's descriptor table has a userfaultfd. A removal of pages may wait
 * until a thread of the program has read its event from the userfaultfd. If that thread is the
 * calling one, the removal never returns. The result is also true if this is unknown: in a sealed
 * process (os/permit.h), before Linux 6.2, or if there are very many descriptors. Opens no file.
 * Keeps errno. A call takes about 1 us for each descriptor number up to the highest open one, and
 * asks no file system but proc. May be called on any thread.
 */
bool gf_userfault_may_be_open(void);

#endif
