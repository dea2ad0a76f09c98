/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which of the calls of os/permit.h a seccomp filter allows. */
#ifndef GF_OS_PERMIT_FIND_H
#define GF_OS_PERMIT_FIND_H

#include "os/permit.h"

/*
 * Permits those wanted calls (bits) that the calling thread's filters allow, and returns them.
 * Without a filter, all wanted calls are permitted. With a filter, child processes try the calls,
 * so the filter kills a child instead of this process; the audit log shows such a child. Opens a
 * file. Keeps errno.
 */
unsigned gf_permit_find(unsigned wanted);

#endif
