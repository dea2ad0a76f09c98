/* SPDX-License-Identifier: Apache-2.0 */
/* Names in the environment that are the library's but no options. */
#ifndef GF_CONFIG_NAMES_H
#define GF_CONFIG_NAMES_H

#include "base/base.h"

/*
 * What a process that bound passes to its children: the mask and policy before binding, and what
 * was set. A hint only (docs/environment.md): a child acts on it only where its present mask still
 * equals what the variable says was set.
 */
#define GF_NAME_BOUND "GPUFEED_BOUND"

/* That, and what somebody else sets who has a thing of this name: no mistake of the user's. */
bool gf_name_is_internal(const char *name);

#endif
