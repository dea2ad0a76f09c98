/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which of the calls of os/permit.h a seccomp filter allows. */
#ifndef GF_OS_PERMIT_FIND_H
#define GF_OS_PERMIT_FIND_H

#include "os/permit.h"

/*
 * Permits those of the wanted calls, as bits, that the filters of the calling thread allow. Without
 * a filter, all wanted calls are permitted. With one, child processes try the calls, so the filter
 * may kill a child instead of this process; the audit log shows such a child. Opens a file. Keeps
 * errno. Returns the permitted calls.
 */
unsigned gf_permit_find(unsigned wanted);

#endif
