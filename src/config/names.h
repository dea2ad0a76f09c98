/* SPDX-License-Identifier: Apache-2.0 */
/* Names of environment variables: those of the library, and those of them that are not options. */
#ifndef GF_CONFIG_NAMES_H
#define GF_CONFIG_NAMES_H

#include "base/base.h"

/*
 * A process that bound itself passes this variable to its children. It holds the mask and the
 * memory policy before binding, and those that the process set. A child uses the hint
 * (docs/environment.md) only if the child's present mask still equals the mask that was set.
 */
#define GF_NAME_BOUND "GPUFEED_BOUND"

/*
 * Whether a variable is GPUFEED_BOUND, or one that Kubernetes sets in every pod for a service named
 * gpufeed. Such a variable is neither an option nor a mistake.
 */
bool gf_name_is_internal(const char *name);

/*
 * Splits "NAME=value" if NAME is GPUFEED or begins with GPUFEED_, in upper or lower case: a
 * lower-case name is a mistake that must be reported. Copies NAME, truncated to size, and returns
 * the value. NULL for any other entry.
 */
const char *gf_name_split(const char *entry, char *name, size_t size);

#endif
