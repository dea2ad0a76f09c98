/* SPDX-License-Identifier: Apache-2.0 */
/* Names of environment variables that belong to the library. */
#ifndef GF_CONFIG_NAMES_H
#define GF_CONFIG_NAMES_H

#include "base/base.h"

/*
 * A process that the library has bound passes this variable to its children (docs/environment.md).
 * Its value contains the process's mask before the binding, and the mask and memory policy that the
 * library set. A child uses the value only if its own mask equals the mask that the library set.
 */
#define GF_NAME_BOUND "GPUFEED_BOUND"

/*
 * A process with an engine passes its process id to its children in this variable. The heap of such a
 * child may keep as much freed memory as the heap of a forked child.
 */
#define GF_NAME_ENGINE "GPUFEED_ENGINE"

/*
 * `gpufeed run` sets this variable to its process id, which the program keeps. So the library knows
 * which process is the one that `gpufeed run` started.
 */
#define GF_NAME_RUN "GPUFEED_RUN"

/*
 * Whether the variable is one of the names above, or one of those that Kubernetes sets in every pod
 * for a service named gpufeed. Such a variable is neither an option nor a mistake.
 */
bool gf_name_is_internal(const char *name);

/*
 * If the entry is "NAME=value", and NAME is GPUFEED or begins with GPUFEED_: copies NAME, truncated
 * to size, and returns the value. Otherwise returns NULL. Case is ignored, because a lower-case
 * name is a mistake that must be reported.
 */
const char *gf_name_split(const char *entry, char *name, size_t size);

#endif
