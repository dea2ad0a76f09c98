/* SPDX-License-Identifier: Apache-2.0 */
/* The malloc family as a table of functions: one table for each allocator that can serve it. */
#ifndef GF_PRELOAD_HEAP_FAMILY_H
#define GF_PRELOAD_HEAP_FAMILY_H

#include "base/base.h"

#include <malloc.h>
#include <stdio.h>

struct gf_family {
#define GF_FAMILY(name, type, parameters, arguments) type(*name) parameters;
#include "abi/family.def"
};

/* glibc's second names for some of these functions. */
struct gf_libc_family {
#define GF_FAMILY_ALIAS(alias, name, type, parameters, arguments) type(*alias) parameters;
#include "abi/family.def"
};

#endif
