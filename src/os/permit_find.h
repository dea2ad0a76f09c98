/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which of the calls of os/permit.h a seccomp filter allows. */
#pragma once

#include "os/permit.h"

/*
 * wanted: bits of calls. Permits those of them that the seccomp filters of the calling thread
 * allow, and returns their bits. Without a filter, all wanted calls are permitted. With a filter,
 * child processes try the calls. If the filter kills for a call, it kills a child instead of this
 * process; the audit log shows such a child. Opens a file. Keeps errno.
 */
unsigned gf_permit_find(unsigned wanted);
