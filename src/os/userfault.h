/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the program monitors memory by userfaultfd. */
#ifndef GF_OS_USERFAULT_H
#define GF_OS_USERFAULT_H

#include "base/base.h"

/*
 * Whether the calling thread's descriptor table has a userfaultfd. The thread that reads its events
 * may be the calling one, so a removal of pages that waits for an event could never return. True,
 * too, if this cannot be found out: in a sealed process (os/permit.h), before Linux 6.2, or with
 * very many descriptors. Opens nothing; keeps errno. Takes 60 ns for each number up to the highest
 * open one. Any thread.
 */
bool gf_userfault_may_be_open(void);

#endif
