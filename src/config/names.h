/* SPDX-License-Identifier: Apache-2.0 */
/* Names of environment variables that belong to the library. */
#ifndef GF_CONFIG_NAMES_H
#define GF_CONFIG_NAMES_H

#include "base/base.h"

/*
 * A process that was bound passes this variable to its children (docs/environment.md). It holds the
 * mask from before the binding, and the mask and memory policy that the library set. A child uses
 * it only if its current mask equals the mask that was set.
 */
#define GF_NAME_BOUND "GPUFEED_BOUND"

/*
 * Whether a variable is GPUFEED_BOUND, or one that Kubernetes sets in every pod for a service named
 * gpufeed. These are neither options nor mistakes.
 */
bool gf_name_is_internal(const char *name);

/*
 * Splits "NAME=value" if NAME is GPUFEED or begins with GPUFEED_. Case is ignored, because a
 * lower-case name is a mistake that must be reported. Copies NAME, truncated to size, and returns
 * the value. NULL for any other entry.
 */
const char *gf_name_split(const char *entry, char *name, size_t size);

#endif
