/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_PRELOAD_MALLOC_DEFAULT_STACK_H
#define GF_PRELOAD_MALLOC_DEFAULT_STACK_H

#include "base/base.h"

#define GF_STACK_LARGE ((size_t)1 << 20) /* stacks of this size need no addition */

/*
 * Adds to the default size of thread stacks if `ulimit -s` made it small. Threads that libc starts
 * for itself, and those without attributes, have the default size.
 */
void gf_default_stack_enlarge(void);

#endif
